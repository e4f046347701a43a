//! Pictures of one size that are in memory already, such as MNIST's and CIFAR's.

use super::decode::{Channels, Picture, luma, prepare};
use super::folder::Pictures;
use crate::error::DataError;
use crate::idx::Images;

/// Which index runs fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `[height, width, channels]`
    Hwc,
    /// `[channels, height, width]`
    Chw,
}

/// Bytes of pictures, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    name: String,
    height: usize,
    width: usize,
    channels: usize,
    layout: Layout,
    pixels: Vec<u8>,
    classes: Vec<i32>,
    labels: Vec<String>,
}

impl Grid {
    /// Pictures of `[height, width, channels]`, 1 or 3 channels, each with a class number below `labels.len()`.
    pub fn new(
        name: &str,
        [height, width, channels]: [usize; 3],
        layout: Layout,
        pixels: Vec<u8>,
        classes: Vec<i32>,
        labels: Vec<String>,
    ) -> Result<Grid, DataError> {
        let problem = |problem: String| Err(DataError::Inconsistent(format!("{name}: {problem}")));
        let bytes = [height, width, channels, classes.len()].iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        if bytes != Some(pixels.len()) || !matches!(channels, 1 | 3) || height == 0 || width == 0 {
            return problem(format!(
                "{} bytes are not {} pictures of {height}×{width} with {channels} channels",
                pixels.len(),
                classes.len()
            ));
        }
        if let Some(class) = classes.iter().find(|class| usize::try_from(**class).map_or(true, |c| c >= labels.len())) {
            return problem(format!("class {class} is not one of 0..{}", labels.len()));
        }
        Ok(Grid { name: name.to_owned(), height, width, channels, layout, pixels, classes, labels })
    }

    /// Grey pictures from IDX, the classes named by their numbers.
    pub fn from_idx(name: &str, images: Images, labels: &[u8], classes: usize) -> Result<Grid, DataError> {
        let names = (0..classes).map(|class| class.to_string()).collect();
        let numbers = labels.iter().map(|label| *label as i32).collect();
        Grid::new(name, [images.height, images.width, 1], Layout::Hwc, images.pixels, numbers, names)
    }
}

impl Pictures for Grid {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.classes.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn label(&self, i: usize) -> i32 {
        self.classes[i]
    }

    fn path(&self, i: usize) -> String {
        format!("{}: picture {i}", self.name)
    }

    fn uniform(&self) -> Option<(usize, usize, usize)> {
        Some((self.height, self.width, self.channels))
    }

    fn load_into(&self, i: usize, channels: Channels, _: &mut Vec<u8>, into: &mut Picture) -> Result<(), DataError> {
        let wanted = channels.count(self.channels == 3);
        prepare(into, self.width, self.height, wanted)
            .map_err(|problem| DataError::Picture { path: self.path(i), problem })?;
        let plane = self.height * self.width;
        let from = &self.pixels[i * plane * self.channels..][..plane * self.channels];
        let to = into.pixels.chunks_exact_mut(wanted);
        match (self.channels, self.layout) {
            (1, _) => to.zip(from).for_each(|(to, grey)| to.fill(*grey)),
            (_, Layout::Hwc) => {
                to.zip(from.chunks_exact(3)).for_each(|(to, from)| paint(to, from[0], from[1], from[2]))
            }
            (_, Layout::Chw) => {
                let (red, rest) = from.split_at(plane);
                let (green, blue) = rest.split_at(plane);
                to.zip(red.iter().zip(green).zip(blue)).for_each(|(to, ((r, g), b))| paint(to, *r, *g, *b));
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn paint(to: &mut [u8], r: u8, g: u8, b: u8) {
    match to {
        [grey] => *grey = luma(r, g, b),
        _ => to[..3].copy_from_slice(&[r, g, b]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_and_all_channels() {
        let labels = || vec!["a".to_owned(), "b".to_owned()];
        let hwc = Grid::new("g", [1, 2, 3], Layout::Hwc, (0..12).collect(), vec![1, 0], labels()).unwrap();
        let chw = vec![0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11];
        let chw = Grid::new("g", [1, 2, 3], Layout::Chw, chw, vec![1, 0], labels()).unwrap();
        for i in 0..2 {
            for channels in [Channels::Grey, Channels::Rgb, Channels::AsIs] {
                assert_eq!(hwc.load(i, channels).unwrap(), chw.load(i, channels).unwrap());
            }
            assert_eq!(hwc.load(i, Channels::Rgb).unwrap().pixels, (6 * i as u8..6 * i as u8 + 6).collect::<Vec<_>>());
            assert_eq!(hwc.load(i, Channels::Rgbx).unwrap().channels, 4);
        }
        let grey = Grid::new("g", [1, 2, 1], Layout::Chw, vec![5, 6], vec![0], labels()).unwrap();
        assert_eq!(grey.load(0, Channels::Rgb).unwrap().pixels, [5, 5, 5, 6, 6, 6]);
    }

    #[test]
    fn disagreements_are_refused() {
        let make =
            |size, bytes, class| Grid::new("g", size, Layout::Hwc, vec![0; bytes], vec![class], vec!["a".into()]);
        assert!(make([2, 2, 3], 12, 0).is_ok());
        assert!(make([2, 2, 3], 11, 0).is_err());
        assert!(make([2, 3, 2], 12, 0).is_err());
        assert!(make([2, 2, 3], 12, 1).is_err());
        assert!(make([usize::MAX, 2, 3], 12, 0).is_err());
    }
}
