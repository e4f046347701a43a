//! The middle of a picture; a smaller picture gets black edges.

use serde::{Deserialize, Serialize};

use super::{Random, Shape, Size, Step};
use crate::picture::canvas::Canvas;

/// `size = 224` or `[height, width]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentreCrop {
    pub size: Size,
}

impl Step for CentreCrop {
    fn check(&self) -> Result<(), String> {
        self.size.check()
    }

    fn sets_size(&self) -> bool {
        true
    }

    fn shape(&self, before: Shape) -> Shape {
        Shape { size: Some(self.size.pair()), ..before }
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut Random) -> Result<(), String> {
        let (height, width) = self.size.pair();
        canvas.crop_padded(edge(canvas.width(), width), edge(canvas.height(), height), width, height)
    }
}

/// Half of what is cut off, or of what is missing.
fn edge(have: usize, want: usize) -> isize {
    match have >= want {
        true => ((have - want) as f64 / 2.0).round_ties_even() as isize,
        false => -(((want - have) / 2) as isize),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;

    /// `center_crop` of torchvision.
    #[test]
    fn cut_or_edged() {
        let cropped = |size| run(Transform::CentreCrop(CentreCrop { size }), &pattern(5, 4, 1), 0).2;
        assert_eq!(cropped(Size::One(2)), [179, 223, 28, 79]);
        let edged = [0, 0, 0, 0, 0, 37, 74, 111, 91, 135, 179, 223, 182, 233, 28, 79, 17, 75, 133, 191, 0, 0, 0, 0];
        assert_eq!(cropped(Size::Both([6, 4])), edged);
    }
}
