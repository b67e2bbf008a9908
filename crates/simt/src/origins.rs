//! Which instructions a value may come from.

/// Of each instruction of a kernel the values that it uses, and of each value the instructions that may have made it, whichever way lanes go.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    used: Lists,
    makers: Lists,
}

/// A list of numbers for each of so many things.
#[derive(Debug, Clone, Default)]
struct Lists {
    /// Where each begins, and where the last ends.
    begins: Vec<u32>,
    numbers: Vec<u32>,
}

impl Lists {
    /// Of pairs of a thing and a number.
    fn new(things: usize, mut pairs: Vec<(u32, u32)>) -> Lists {
        pairs.sort_unstable();
        let begin = |thing| pairs.partition_point(|(other, _)| (*other as usize) < thing) as u32;
        let begins = (0..=things).map(begin).collect();
        Lists { begins, numbers: pairs.into_iter().map(|(_, number)| number).collect() }
    }

    fn of(&self, thing: u32) -> &[u32] {
        let [begin, end] = [thing, thing + 1].map(|thing| self.begins[thing as usize] as usize);
        &self.numbers[begin..end]
    }

    fn things(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }
}

impl Origins {
    /// Of pairs of an instruction and a value that it uses, and of a value and an instruction that makes it.
    pub(crate) fn new(
        instructions: usize,
        values: usize,
        used: Vec<(u32, u32)>,
        made: Vec<(u32, u32)>,
    ) -> Origins {
        Origins { used: Lists::new(instructions, used), makers: Lists::new(values, made) }
    }

    /// Whether what an instruction uses may come from each of all, by way of registers.
    pub(crate) fn of(&self, instruction: u32) -> Vec<bool> {
        let mut among = vec![false; self.used.things()];
        let mut known = vec![false; self.makers.things()];
        let mut open = vec![instruction];
        while let Some(user) = open.pop() {
            for &value in self.used.of(user) {
                if std::mem::replace(&mut known[value as usize], true) {
                    continue;
                }
                for &maker in self.makers.of(value) {
                    if !std::mem::replace(&mut among[maker as usize], true) {
                        open.push(maker);
                    }
                }
            }
        }
        among
    }
}
