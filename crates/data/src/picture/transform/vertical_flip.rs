//! Top and bottom exchanged, now and then.

use serde::{Deserialize, Serialize};

use super::{Random, Step, check_probability};
use crate::picture::canvas::Canvas;

/// Costs nothing by itself: the last write reads the other way round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerticalFlip {
    pub probability: f32,
}

impl Default for VerticalFlip {
    fn default() -> Self {
        VerticalFlip { probability: 0.5 }
    }
}

impl Step for VerticalFlip {
    fn check(&self) -> Result<(), String> {
        check_probability(self.probability)
    }

    fn idle(&self) -> Option<&'static str> {
        (self.probability == 0.0).then_some("probability")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        if random.chance(self.probability) {
            canvas.flip_y();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;

    #[test]
    fn rows_change_places() {
        let flipped = run(Transform::VerticalFlip(VerticalFlip { probability: 1.0 }), &pattern(2, 3, 1), 0).2;
        assert_eq!(flipped, [182, 233, 91, 135, 0, 37]);
    }
}
