//! What lanes of a warp hand each other because they go together.
//!
//! Volatile and relaxed accesses race with none of their kind, so a sum in which each lane reads what the next has just written, with no
//! `__syncwarp()` in between, does nothing that is forbidden. It comes out right where lanes go in step, as they did before Volta, and where they do
//! not, anyhow. Whether results hang on it is for who runs both to see; here it is noted who read what, and where it was written.

use crate::fault::{Kind, Line};

use super::Machine;
use super::block::Block;
use super::cell_bytes;
use super::place::{Group, Request, Target};
use super::warp::lanes;

impl Machine<'_> {
    /// Notes lanes that look at what another lane of their warp wrote, with nothing to order the two.
    pub(super) fn note_handed_in_step(&mut self, group: &Group, mask: u32, request: &Request, block: &Block) {
        if !self.in_step || !self.seeks_races() {
            return;
        }
        let mut handed = std::mem::take(&mut self.handed_in_step);
        let (shadow, cell) = match group.target {
            Target::Shared => (Some(&block.shared_shadow), 4),
            Target::Global(place) => {
                (self.shadows[place].as_ref(), cell_bytes(self.memory.at(place).element()))
            }
            Target::Local | Target::Param | Target::Nowhere => (None, 1),
        };
        for lane in lanes(mask) {
            let (offset, by) = (group.offsets[lane], request.thread(lane));
            let last =
                shadow.and_then(|shadow| shadow.last_atomic_write(offset as usize, request.size, cell));
            let Some(write) = last else { continue };
            let is_of_warp = write.block == block.index && write.warp() == request.warp;
            if !is_of_warp || write.thread == by || block.clocks.sees(request.warp, &write) {
                continue;
            }
            let first = || {
                let who = self.thread(block.ctaid, write.thread).in_block();
                let line = Line::of(self.kernel, write.pc);
                let spot = self.spot(group.target, offset);
                let detail = format!(
                    "reads {spot} as {who} of its warp wrote it at {line}, with no __syncwarp() in between: its lanes need not go together"
                );
                (self.thread(block.ctaid, by), detail)
            };
            handed.note(self.kernel, Kind::WarpSynchronous, request.pc, Some(write.pc), 1, first);
        }
        self.handed_in_step = handed;
    }
}
