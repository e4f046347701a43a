//! Eigenvalues and -vectors of a symmetric matrix, the same on every machine.
//!
//! Householder reflections make the matrix tridiagonal, `A = Q·T·Qᵀ`; QL steps with implicit shifts then make T
//! diagonal and turn Q along. It is EISPACK's tred2 and tql2, about 3·n³ multiplications; all inner loops go along a row.

use std::ops::Range;

/// QL steps for one value; a few are usual.
const MOST_STEPS: usize = 100;

/// Eigenvalues, largest first, and for each its vector of length 1, of the symmetric `n × n` matrix `a`.
pub(super) fn symmetric(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    // In units of the largest entry nothing overflows or vanishes.
    let unit = a.iter().fold(0.0, |largest: f64, entry| largest.max(entry.abs()));
    if n == 0 || unit == 0.0 {
        let vector = |i: usize| (0..n).map(|j| (i == j) as u8 as f64).collect();
        return (vec![0.0; n], (0..n).map(vector).collect());
    }
    a.iter_mut().for_each(|entry| *entry /= unit);
    let mut vectors = Rows { data: a, n };
    let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n]);
    make_tridiagonal(&mut vectors, &mut diagonal, &mut beside);
    make_diagonal(&mut vectors, &mut diagonal, &mut beside);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| diagonal[*j].total_cmp(&diagonal[*i]).then(i.cmp(j)));
    let values = order.iter().map(|i| diagonal[*i] * unit).collect();
    let vectors = order.iter().map(|i| vectors.row(*i).to_vec()).collect();
    (values, vectors)
}

/// Row j is vector j: column j of Q.
struct Rows {
    data: Vec<f64>,
    n: usize,
}

impl Rows {
    fn row(&self, j: usize) -> &[f64] {
        &self.data[j * self.n..(j + 1) * self.n]
    }

    fn part(&mut self, j: usize, range: Range<usize>) -> &mut [f64] {
        &mut self.data[j * self.n + range.start..j * self.n + range.end]
    }

    /// Rows `i` and `j`, `i < j`.
    fn two(&mut self, i: usize, j: usize) -> (&mut [f64], &mut [f64]) {
        let (head, tail) = self.data.split_at_mut(j * self.n);
        (&mut head[i * self.n..(i + 1) * self.n], &mut tail[..self.n])
    }
}

/// tred2: leaves the diagonal of T in `d`, what is beside it in `e[1..]`, and Q in `v`.
fn make_tridiagonal(v: &mut Rows, d: &mut [f64], e: &mut [f64]) {
    let n = v.n;
    for (j, d) in d.iter_mut().enumerate() {
        *d = v.row(j)[n - 1];
    }
    for i in (1..n).rev() {
        let scale: f64 = d[..i].iter().map(|x| x.abs()).sum();
        let mut h = 0.0;
        // The largest entry of the matrix is 1: this is nothing, and its square would be less than f64 can tell.
        if scale < 1e-100 {
            e[i] = d[i - 1];
            for (j, d) in d[..i].iter_mut().enumerate() {
                *d = v.row(j)[i - 1];
                v.part(j, i..i + 1)[0] = 0.0;
            }
            v.part(i, 0..i).fill(0.0);
        } else {
            d[..i].iter_mut().for_each(|x| *x /= scale);
            h = d[..i].iter().map(|x| x * x).sum();
            let f = d[i - 1];
            let g = if f > 0.0 { -f64::sqrt(h) } else { f64::sqrt(h) };
            e[i] = scale * g;
            h -= f * g;
            d[i - 1] = f - g;
            v.part(i, 0..i).copy_from_slice(&d[..i]);
            // e = A·d / h, from the lower triangle
            e[..i].fill(0.0);
            for j in 0..i {
                let f = d[j];
                let mut g = e[j] + v.row(j)[j] * f;
                let column = &v.row(j)[j + 1..i];
                for ((x, d), e) in column.iter().zip(&d[j + 1..i]).zip(&mut e[j + 1..i]) {
                    g += x * d;
                    *e += x * f;
                }
                e[j] = g;
            }
            e[..i].iter_mut().for_each(|x| *x /= h);
            let half = e[..i].iter().zip(&d[..i]).map(|(e, d)| e * d).sum::<f64>() / (h + h);
            e[..i].iter_mut().zip(&d[..i]).for_each(|(e, d)| *e -= half * d);
            for j in 0..i {
                let (f, g) = (d[j], e[j]);
                let column = v.part(j, j..i);
                for ((x, e), d) in column.iter_mut().zip(&e[j..i]).zip(&d[j..i]) {
                    *x -= f * e + g * d;
                }
                d[j] = v.row(j)[i - 1];
                v.part(j, i..i + 1)[0] = 0.0;
            }
        }
        d[i] = h;
    }
    // Q, from the reflections kept in the rows
    for i in 0..n - 1 {
        v.part(i, n - 1..n)[0] = v.row(i)[i];
        v.part(i, i..i + 1)[0] = 1.0;
        let h = d[i + 1];
        if h != 0.0 {
            for (d, x) in d[..=i].iter_mut().zip(&v.row(i + 1)[..=i]) {
                *d = x / h;
            }
            for j in 0..=i {
                let (row, reflection) = v.two(j, i + 1);
                let g: f64 = reflection[..=i].iter().zip(&row[..=i]).map(|(a, b)| a * b).sum();
                row[..=i].iter_mut().zip(&d[..=i]).for_each(|(x, d)| *x -= g * d);
            }
        }
        v.part(i + 1, 0..i + 1).fill(0.0);
    }
    for (j, d) in d.iter_mut().enumerate() {
        *d = v.row(j)[n - 1];
        v.part(j, n - 1..n)[0] = 0.0;
    }
    v.part(n - 1, n - 1..n)[0] = 1.0;
    e[0] = 0.0;
}

/// tql2: leaves the eigenvalues in `d` and their vectors in `v`.
fn make_diagonal(v: &mut Rows, d: &mut [f64], e: &mut [f64]) {
    let n = v.n;
    e.rotate_left(1);
    e[n - 1] = 0.0;
    let (mut shift, mut largest) = (0.0, 0.0f64);
    for l in 0..n {
        largest = largest.max(d[l].abs() + e[l].abs());
        let small = |x: f64| x.abs() <= f64::EPSILON * largest;
        let m = (l..n).find(|m| small(e[*m])).unwrap_or(n - 1);
        for _ in 0..MOST_STEPS {
            if m == l || small(e[l]) {
                break;
            }
            let g = d[l];
            let p = (d[l + 1] - g) / (2.0 * e[l]);
            let r = if p < 0.0 { -p.hypot(1.0) } else { p.hypot(1.0) };
            d[l] = e[l] / (p + r);
            d[l + 1] = e[l] * (p + r);
            let next = d[l + 1];
            let h = g - d[l];
            d[l + 2..].iter_mut().for_each(|x| *x -= h);
            shift += h;
            let mut p = d[m];
            let (mut c, mut c2, mut c3, mut s, mut s2) = (1.0, 1.0, 1.0, 0.0, 0.0);
            let after = e[l + 1];
            for i in (l..m).rev() {
                (c3, c2, s2) = (c2, c, s);
                let g = c * e[i];
                let h = c * p;
                let r = p.hypot(e[i]);
                e[i + 1] = s * r;
                s = e[i] / r;
                c = p / r;
                p = c * d[i] - s * g;
                d[i + 1] = h + s * (c * g + s * d[i]);
                let (row, other) = v.two(i, i + 1);
                for (x, y) in row.iter_mut().zip(other) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
            }
            p = -s * s2 * c3 * after * e[l] / next;
            e[l] = s * p;
            d[l] = c * p;
        }
        d[l] += shift;
        e[l] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    #[test]
    fn by_hand() {
        let (values, vectors) = symmetric(vec![2.0, 1.0, 1.0, 2.0], 2);
        assert!((values[0] - 3.0).abs() < 1e-14 && (values[1] - 1.0).abs() < 1e-14, "{values:?}");
        assert!((vectors[0][0] - vectors[0][1]).abs() < 1e-14);
        assert_eq!(symmetric(vec![], 0).0, [0.0; 0]);
        assert_eq!(symmetric(vec![7.0], 1), (vec![7.0], vec![vec![1.0]]));
        assert_eq!(symmetric(vec![0.0; 9], 3).0, [0.0; 3]);
        assert_eq!(symmetric(vec![1.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0], 3).0, [3.0, 2.0, 1.0]);
    }

    /// A·v = λ·v and vᵢ·vⱼ = δᵢⱼ, for full, singular, repeated, huge and tiny matrices.
    fn check(a: &[f64], n: usize) {
        let (values, vectors) = symmetric(a.to_vec(), n);
        assert!(values.is_sorted_by(|a, b| a >= b));
        let size = a.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
        for (i, (value, vector)) in values.iter().zip(&vectors).enumerate() {
            for row in 0..n {
                let product: f64 = (0..n).map(|j| a[row * n + j] * vector[j]).sum();
                assert!((product - value * vector[row]).abs() <= 1e-12 * size * n as f64);
            }
            for (j, other) in vectors.iter().enumerate() {
                let dot: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                assert!((dot - (i == j) as u8 as f64).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn vectors_belong_to_values() {
        let mut rng = SplitMix64::new(5);
        for n in [1, 2, 3, 10, 33, 64] {
            let mut a = vec![0.0; n * n];
            for i in 0..n {
                for j in 0..=i {
                    let value = rng.below(1000) as f64 / 500.0 - 1.0;
                    (a[i * n + j], a[j * n + i]) = (value, value);
                }
            }
            check(&a, n);
            check(&a.iter().map(|x| x * 1e70).collect::<Vec<_>>(), n);
            check(&a.iter().map(|x| x * 1e-70).collect::<Vec<_>>(), n);
            check(&vec![1.0; n * n], n);
            let rank_two = |i: usize, j: usize| (i * j) as f64 + ((i % 2) * (j % 2)) as f64;
            check(&(0..n * n).map(|at| rank_two(at / n, at % n)).collect::<Vec<_>>(), n);
            check(&(0..n * n).map(|at| (at / n == at % n) as u8 as f64 * (at % 3) as f64).collect::<Vec<_>>(), n);
        }
    }
}
