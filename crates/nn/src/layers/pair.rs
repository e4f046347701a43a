/// Down and across: one number for both, or `[h, w]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair(pub [usize; 2]);

impl From<usize> for Pair {
    fn from(both: usize) -> Pair {
        Pair([both, both])
    }
}

impl From<[usize; 2]> for Pair {
    fn from(pair: [usize; 2]) -> Pair {
        Pair(pair)
    }
}
