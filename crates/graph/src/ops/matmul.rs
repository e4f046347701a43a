//! Matrix product, batched over leading axes.

use super::Vjp;
use crate::{DType, Op, Shape, Tensor};

impl Tensor {
    /// `[…,m,k] × […,k,n] → […,m,n]`; leading axes broadcast.
    #[track_caller]
    pub fn matmul(&self, rhs: &Tensor) -> Tensor {
        if let Some(result) = of_table(self, rhs) {
            return result;
        }
        // a transposed operand is read as it is stored
        let (a, ta) = untransposed(self);
        let (b, tb) = untransposed(rhs);
        product(&a, ta, &b, tb, self, rhs)
    }
}

impl Tensor {
    /// A product that sums over several axes: `[…,m,k…] × […,k…,n] → […,m,n]`, with `inner` axes k; leading axes broadcast.
    #[track_caller]
    pub fn contract(&self, rhs: &Tensor, inner: usize) -> Tensor {
        if inner == 1 {
            return self.matmul(rhs);
        }
        let (ls, rs) = (self.dims(), rhs.dims());
        let fits = inner > 0 && ls.len() > inner && rs.len() > inner;
        let leading = |dims: &[usize]| Shape::new(&dims[..dims.len().saturating_sub(inner + 1)]);
        let batch = Shape::broadcast(&leading(&ls), &leading(&rs)).filter(|_| fits);
        let same = fits && ls[ls.len() - inner..] == rs[rs.len() - inner - 1..rs.len() - 1];
        let numbers = self.dtype() == DType::F32 && rhs.dtype() == DType::F32;
        let Some(batch) = batch.filter(|_| same && numbers) else {
            let problem =
                format!("{} × {} over {inner} axes: they do not match, or are not f32", self.shape(), rhs.shape());
            self.fail("contract", problem);
            return self.clone();
        };
        let stretch = |t: &Tensor, own: &[usize]| t.broadcast_to(&[batch.dims(), own].concat());
        let a = stretch(self, &ls[ls.len() - inner - 1..]);
        let b = stretch(rhs, &rs[rs.len() - inner - 1..]);
        let dims = [batch.dims(), &[ls[ls.len() - inner - 1], rs[rs.len() - 1]]].concat();
        self.graph().add(Op::Matmul { ta: false, tb: false, inner }, &[a.id(), b.id()], dims.into(), DType::F32)
    }
}

#[track_caller]
fn product(a: &Tensor, ta: bool, b: &Tensor, tb: bool, lhs: &Tensor, rhs: &Tensor) -> Tensor {
    let (ls, rs) = (lhs.dims(), rhs.dims());
    let problem = if ls.len() < 2 || rs.len() < 2 {
        Some("both sides need at least two axes".to_string())
    } else if lhs.dtype() != DType::F32 || rhs.dtype() != DType::F32 {
        Some(format!("needs f32, got {} and {}; use to_f32()", lhs.dtype(), rhs.dtype()))
    } else {
        let (k, k2) = (ls[ls.len() - 1], rs[rs.len() - 2]);
        let hint = if k == rs[rs.len() - 1] { "; did you mean rhs.t()?" } else { "" };
        (k != k2).then(|| format!("inner {k} ≠ {k2}{hint}"))
    };
    let batch = Shape::broadcast(&ls[..ls.len().max(2) - 2].into(), &rs[..rs.len().max(2) - 2].into());
    let problem = problem.or(batch.is_none().then(|| "leading axes do not match".to_string()));
    if let Some(problem) = problem {
        lhs.fail("matmul", format!("{} × {}: {problem}", lhs.shape(), rhs.shape()));
        return lhs.clone();
    }
    let (m, k, n) = (ls[ls.len() - 2], ls[ls.len() - 1], rs[rs.len() - 1]);
    let batch = batch.unwrap_or_default();
    let stretch = |t: &Tensor, rows: usize, cols: usize| {
        let mut dims = batch.dims().to_vec();
        dims.extend([rows, cols]);
        t.broadcast_to(&dims)
    };
    let (a_dims, b_dims) = (if ta { (k, m) } else { (m, k) }, if tb { (n, k) } else { (k, n) });
    let (a, b) = (stretch(a, a_dims.0, a_dims.1), stretch(b, b_dims.0, b_dims.1));
    let mut dims = batch.dims().to_vec();
    dims.extend([m, n]);
    lhs.graph().add(Op::Matmul { ta, tb, inner: 1 }, &[a.id(), b.id()], dims.into(), DType::F32)
}

/// Rows of a table times a matrix are rows of the table times the matrix: fewer of them where each row is looked up several
/// times. Rows that are not in the table, `inside.choose(rows, number)`, stay what they are.
#[track_caller]
fn of_table(lhs: &Tensor, rhs: &Tensor) -> Option<Tensor> {
    let g = lhs.graph();
    let node = |t: &Tensor| {
        let inner = g.0.borrow();
        let node = &inner.nodes[t.id()];
        (node.op.clone(), node.inputs.clone())
    };
    let under = |t: &Tensor, through: &dyn Fn(&Op) -> bool| {
        let mut t = t.clone();
        loop {
            match node(&t) {
                (op, inputs) if through(&op) => t = g.tensor(inputs[0]),
                _ => return t,
            }
        }
    };
    let width = *lhs.dims().last()?;
    if lhs.rank() != 2 || rhs.rank() != 2 || rhs.dims()[0] != width || rhs.dtype() != DType::F32 {
        return None;
    }
    let found = under(lhs, &|op| matches!(op, Op::Reshape));
    let (guard, gather) = match node(&found) {
        (op @ Op::Map { .. }, inputs) if op.name() == "choose" => {
            let [inside, rows, other] = [0, 1, 2].map(|i| g.tensor(inputs[i]));
            let inside = under(&inside, &|op| matches!(op, Op::Broadcast));
            let other = under(&other, &|op| matches!(op, Op::Broadcast));
            let Op::Constant(number) = node(&other).0 else { return None };
            let of_rows = inside.dims().last() == Some(&1) && inside.rank() == found.rank();
            // only what stays what it is when multiplied
            (number.is_nan() && of_rows).then_some((Some(inside), rows))?
        }
        _ => (None, found.clone()),
    };
    let (Op::GatherRows, inputs) = node(&gather) else { return None };
    let (table, indices) = (g.tensor(inputs[0]), g.tensor(inputs[1]));
    let fits = table.rank() == 2 && table.dtype() == DType::F32 && found.dims().last() == Some(&width);
    if !fits || indices.elements() < 2 * table.dims()[0] {
        return None;
    }
    let rows = table.matmul(rhs).gather_rows(&indices);
    let rows = match guard {
        Some(inside) => inside.choose(&rows, &g.scalar(f64::NAN)),
        None => rows,
    };
    Some(rows.reshape(&[lhs.dims()[0], rhs.dims()[1]]))
}

/// The stored tensor under a swap of the last two axes, and whether there was one.
fn untransposed(t: &Tensor) -> (Tensor, bool) {
    let inner = t.graph().0.borrow();
    let node = &inner.nodes[t.id()];
    if let Op::Transpose { perm } = &node.op {
        let r = perm.len();
        let swap = r >= 2 && perm[..r - 2].iter().enumerate().all(|(i, &p)| i == p) && perm[r - 2..] == [r - 1, r - 2];
        if swap {
            return (t.graph().tensor(node.inputs[0]), true);
        }
    }
    drop(inner);
    (t.clone(), false)
}

/// As a plain product of the sides with their inner axes made one.
pub(super) fn contract_vjp(v: &Vjp, inner: usize) -> Vec<Option<Tensor>> {
    let (a, b) = (&v.x[0], &v.x[1]);
    let (ad, bd) = (a.dims(), b.dims());
    let batch = ad.len() - inner - 1;
    let k: usize = ad[batch + 1..].iter().product();
    let plain_a = a.reshape(&[&ad[..=batch], &[k]].concat());
    let plain_b = b.reshape(&[&bd[..batch], &[k, bd[bd.len() - 1]]].concat());
    let da = v.dy.matmul(&plain_b.t()).reshape(&ad);
    let db = plain_a.t().matmul(v.dy).reshape(&bd);
    vec![Some(da), Some(db)]
}

/// With a = A or Aᵀ as stored: dA = dy·Bᵀ, dB = Aᵀ·dy, each transposed again where the operand is stored transposed.
pub(super) fn vjp(v: &Vjp, ta: bool, tb: bool) -> Vec<Option<Tensor>> {
    let (a, b, dy) = (&v.x[0], &v.x[1], v.dy);
    let logical = |t: &Tensor, transposed: bool| if transposed { t.t() } else { t.clone() };
    let da = match ta {
        false => dy.matmul(&logical(b, tb).t()),
        true => logical(b, tb).matmul(&dy.t()),
    };
    let db = match tb {
        false => logical(a, ta).t().matmul(dy),
        true => dy.t().matmul(&logical(a, ta)),
    };
    vec![Some(da), Some(db)]
}
