//! A random part painted over, so that no single part decides.

use serde::{Deserialize, Serialize};

use super::{Random, Step, check_probability, check_range, random_place, ten_tries};
use crate::picture::canvas::Canvas;

/// Comes last: `value` is in the unit of the output, 0 being the mean of a normalised one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomErasing {
    pub probability: f32,
    pub scale: [f32; 2],
    pub ratio: [f32; 2],
    pub value: f32,
}

impl Default for RandomErasing {
    fn default() -> Self {
        RandomErasing { probability: 0.5, scale: [0.02, 0.33], ratio: [0.3, 3.3], value: 0.0 }
    }
}

impl Step for RandomErasing {
    fn check(&self) -> Result<(), String> {
        check_probability(self.probability)?;
        check_range("scale", self.scale, 0.0, 1.0)?;
        check_range("ratio", self.ratio, 1e-3, 1e3)?;
        match self.value.is_finite() {
            true => Ok(()),
            false => Err(format!("value {} is not a number to paint with", self.value)),
        }
    }

    fn idle(&self) -> Option<&'static str> {
        (self.probability == 0.0).then_some("probability")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        if !random.chance(self.probability) {
            return Ok(());
        }
        let (have_width, have_height) = (canvas.width(), canvas.height());
        let area = have_width as f64 * have_height as f64;
        let fits = |width, height| width < have_width && height < have_height;
        if let Some((width, height)) = ten_tries(random, area, self.scale, self.ratio, fits) {
            let part = random_place(random, canvas, width, height);
            canvas.erase(part, self.value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_rectangle_of_the_area_asked() {
        let white = crate::picture::Picture { width: 40, height: 40, channels: 1, pixels: vec![255; 1600] };
        let erasing = RandomErasing { probability: 1.0, value: 7.0, ..RandomErasing::default() };
        for key in 0..200 {
            let (_, _, got) = run(Transform::RandomErasing(erasing.clone()), &white, key);
            let painted: Vec<(usize, usize)> = (0..1600).filter(|i| got[*i] == 7).map(|i| (i % 40, i / 40)).collect();
            let span = |side: &dyn Fn(&(usize, usize)) -> usize| {
                let sides = painted.iter().map(side);
                sides.clone().max().unwrap() - sides.min().unwrap() + 1
            };
            assert_eq!(span(&|p| p.0) * span(&|p| p.1), painted.len(), "one rectangle");
            assert!((20..=560).contains(&painted.len()), "{}", painted.len());
        }
        let some =
            (0..1000).filter(|key| run(Transform::RandomErasing(Default::default()), &white, *key).2.contains(&0));
        assert!((440..560).contains(&some.count()));
    }
}
