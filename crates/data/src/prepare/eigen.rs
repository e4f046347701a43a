//! Eigenvalues and -vectors of a symmetric matrix by cyclic Jacobi rotations: small, exact to rounding, and the same on
//! every machine.
//!
//! Each rotation by θ, `tan 2θ = 2·a_pq / (a_qq − a_pp)`, makes `a_pq` zero; sweeps over all pairs go on until what is off
//! the diagonal is rounding. The sum of its squares falls quadratically at the end: 6 to 10 sweeps.

/// Sweeps after which the rest is rounding, whatever it measures.
const MOST_SWEEPS: usize = 40;

/// Eigenvalues, largest first, and for each its vector of length 1, of the symmetric `n × n` matrix `a`.
pub(super) fn symmetric(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    // Row i is the vector of value i.
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    let norm: f64 = a.iter().map(|value| value * value).sum::<f64>().sqrt();
    for _ in 0..MOST_SWEEPS {
        let off: f64 = (0..n).flat_map(|p| &a[p * n + p + 1..(p + 1) * n]).map(|value| value * value).sum();
        if off.sqrt() <= norm * 1e-15 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, n, p, q, norm);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a[j * n + j].total_cmp(&a[i * n + i]).then(i.cmp(j)));
    let values = order.iter().map(|i| a[i * n + i]).collect();
    let vectors = order.iter().map(|i| vectors[i * n..(i + 1) * n].to_vec()).collect();
    (values, vectors)
}

fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize, norm: f64) {
    let pq = a[p * n + q];
    if pq.abs() <= norm * 1e-18 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * pq);
    let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    turn_rows(a, n, p, q, c, s);
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    turn_rows(vectors, n, p, q, c, s);
}

/// `(row p, row q) ← (c·p − s·q, s·p + c·q)`, p < q
fn turn_rows(matrix: &mut [f64], n: usize, p: usize, q: usize, c: f64, s: f64) {
    let (head, tail) = matrix.split_at_mut(q * n);
    for (x, y) in head[p * n..(p + 1) * n].iter_mut().zip(&mut tail[..n]) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
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
    }

    #[test]
    fn matrix_times_vector_is_value_times_vector() {
        let n = 33;
        let mut rng = SplitMix64::new(5);
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = rng.below(1000) as f64 / 500.0 - 1.0;
                (a[i * n + j], a[j * n + i]) = (value, value);
            }
        }
        let (values, vectors) = symmetric(a.clone(), n);
        assert!(values.is_sorted_by(|a, b| a >= b));
        for (value, vector) in values.iter().zip(&vectors) {
            for i in 0..n {
                let product: f64 = (0..n).map(|j| a[i * n + j] * vector[j]).sum();
                assert!((product - value * vector[i]).abs() < 1e-12);
            }
            assert!((vector.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}
