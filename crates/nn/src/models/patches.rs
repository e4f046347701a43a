use citius_graph::Tensor;

/// Pictures `[n,c,h,w]` as squares of `side` pixels each, row by row: `[n,(h/side)·(w/side),c·side·side]`. `Err` says
/// what is wrong.
#[track_caller]
pub(super) fn patches(x: &Tensor, channels: usize, side: usize) -> Result<Tensor, String> {
    let [n, c, h, w] = x.dims()[..] else {
        return Err(format!("input is {}, must be [n,{channels},h,w]", x.shape()));
    };
    if c != channels {
        return Err(format!("input is {}, must be [n,{channels},h,w]", x.shape()));
    }
    if side == 0 || !h.is_multiple_of(side) || !w.is_multiple_of(side) || h * w == 0 {
        return Err(format!("patches of {side}×{side} do not divide a picture of {h}×{w}"));
    }
    let (down, across) = (h / side, w / side);
    let apart = x.reshape(&[n, c, down, side, across, side]).transpose(&[0, 2, 4, 1, 3, 5]);
    Ok(apart.reshape(&[n, down * across, c * side * side]))
}
