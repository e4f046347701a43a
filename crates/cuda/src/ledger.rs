/// Where the time of a run went, in seconds. Filling, copying and computing go on at the same time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Ledger {
    pub steps: u64,
    /// From the beginning of runs to their end.
    pub wall: f64,
    /// The driver filled inputs, on the host.
    pub filling: f64,
    /// Inputs were copied to the GPU.
    pub copying: f64,
    /// The GPU computed.
    pub computing: f64,
    /// The host had nothing to do but wait for the GPU.
    pub waiting: f64,
}
