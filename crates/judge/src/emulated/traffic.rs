//! What calls ask of memory.

use std::collections::BTreeMap;

use tribunal_simt::meter::{BufferMeter, SECTOR};

/// What a call asked of the device's memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Traffic {
    /// Of every buffer, over all launches of the calls.
    pub buffers: BTreeMap<String, BufferTraffic>,
    /// Bytes of inputs and outputs, once each.
    pub given: f64,
    /// Bytes of the sectors of states that calls used.
    pub used: f64,
}

/// What calls asked of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BufferTraffic {
    /// Its size, summed over calls.
    pub size: f64,
    /// Bytes that loads asked for.
    pub read: f64,
    /// Bytes that stores asked for.
    pub written: f64,
    /// Bytes of the sectors that both touched.
    pub moved: f64,
    /// Whether it is an input of the operation.
    pub input: bool,
    /// Whether it is of a state.
    pub state: bool,
}

impl BufferTraffic {
    /// Adds what a launch asked of it.
    pub(super) fn add(&mut self, meter: &BufferMeter) {
        self.read += meter.read.bytes as f64;
        self.written += meter.written.bytes as f64;
        self.moved += (SECTOR * (meter.read.sectors + meter.written.sectors)) as f64;
    }
}

impl Traffic {
    /// Bytes that loads and stores asked for.
    pub fn bytes(&self) -> f64 {
        self.buffers.values().map(|buffer| buffer.read + buffer.written).sum()
    }

    /// Bytes of the sectors that they touched, request by request.
    pub fn moved(&self) -> f64 {
        self.buffers.values().map(|buffer| buffer.moved).sum()
    }
}
