use std::fmt;

/// Sizes of the axes, outermost first; `[]` is a scalar.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    pub fn new(dims: &[usize]) -> Shape {
        Shape(dims.to_vec())
    }

    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Their number; stays at the largest number when it would be beyond.
    pub fn elements(&self) -> usize {
        self.0.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
    }

    /// Distance in elements between neighbours along each axis of a contiguous tensor.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.0[axis]);
        }
        strides
    }

    /// The shape both operands are stretched to (axes aligned at the right, size 1 stretches).
    pub fn broadcast(a: &Shape, b: &Shape) -> Option<Shape> {
        let rank = a.rank().max(b.rank());
        let size = |s: &Shape, axis: usize| (axis + s.rank()).checked_sub(rank).map_or(1, |i| s.0[i]);
        (0..rank)
            .map(|axis| match (size(a, axis), size(b, axis)) {
                (m, n) if m == n => Some(m),
                (1, n) => Some(n),
                (m, 1) => Some(m),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Shape)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(dims)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(|d| d.to_string()).collect();
        write!(f, "[{}]", sizes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_aligns_right() {
        let b = |a: &[usize], b: &[usize]| Shape::broadcast(&a.into(), &b.into());
        assert_eq!(b(&[3, 4], &[4]), Some(Shape::new(&[3, 4])));
        assert_eq!(b(&[3, 1], &[1, 4]), Some(Shape::new(&[3, 4])));
        assert_eq!(b(&[], &[2]), Some(Shape::new(&[2])));
        assert_eq!(b(&[3], &[4]), None);
    }
}
