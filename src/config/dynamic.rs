//! Settings of dynamic replication: further replicas in memory for objects that are read often.

use super::sections::PPM_WHOLE;

/// What is done about objects that are read often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DynamicMode {
    /// Nothing; reads are not counted.
    #[default]
    Off,
    /// It is said what would be done.
    Observe,
    /// They get further replicas.
    Enforce,
}

/// Dynamic replication (behaviour spec 8.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicConfig {
    /// What is done.
    pub mode: DynamicMode,
    /// Window in seconds over which reads are counted; at least 1.
    pub window_sec: u32,
    /// Reads a second at which an object is hot, in millionths; at least 1.
    pub threshold_micros: u64,
    /// Replicas in memory that a hot object may have; at least 1.
    pub replicas_max: u64,
}

impl DynamicConfig {
    /// Reads within one window at which an object is hot; at least 1.
    pub fn hits(&self) -> u32 {
        let micros = u128::from(self.threshold_micros) * u128::from(self.window_sec);
        u32::try_from(micros.div_ceil(u128::from(PPM_WHOLE))).unwrap_or(u32::MAX).max(1)
    }
}

impl Default for DynamicConfig {
    fn default() -> Self {
        DynamicConfig {
            mode: DynamicMode::Off,
            window_sec: 10,
            threshold_micros: 800_000,
            replicas_max: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hits_of_a_window_are_rounded_up() {
        let hits = |threshold_micros, window_sec| {
            DynamicConfig { threshold_micros, window_sec, ..DynamicConfig::default() }.hits()
        };
        assert_eq!(DynamicConfig::default().hits(), 8);
        assert_eq!((hits(1, 1), hits(100_001, 10), hits(2_500_000, 1)), (1, 2, 3));
        assert_eq!(hits(u64::MAX, u32::MAX), u32::MAX);
    }
}
