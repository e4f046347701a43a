//! Logarithms of a column: `log(1 + x)`, and `sign(x) · log(1 + |x|)` where values may be negative.

/// Which logarithm a column was asked to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    /// `log(1 + x)`, x not negative.
    Plain,
    /// `sign(x) · log(1 + |x|)`
    Signed,
}

/// `log(1 + x)`, continued to negative values by symmetry.
pub(super) fn signed_log(value: f64) -> f64 {
    value.signum() * value.abs().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_and_exact_near_zero() {
        assert_eq!(signed_log(0.0), 0.0);
        assert_eq!(signed_log(1e-20), 1e-20);
        assert_eq!(signed_log(std::f64::consts::E - 1.0), 1.0);
        assert_eq!(signed_log(-3.0), -(4f64.ln()));
        assert!(signed_log(f64::MAX).is_finite() && signed_log(f64::MIN).is_finite());
    }
}
