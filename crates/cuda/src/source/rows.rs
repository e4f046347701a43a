//! Gather, scatter, random numbers and argmax, for the rows `r0..r1` of a unit.

use citius_graph::DType;
use citius_plan::{ArgMax, Buffer, Gather, Random, Scatter};

use super::Sync;
use super::program::{constant, typed};
use super::text::Text;

pub fn gather(text: &mut Text, g: &Gather, buffers: &[Buffer]) {
    let (from, to) = (buffers[g.table].dtype, buffers[g.out].dtype);
    let width = g.width;
    let value = |value: String| match (from, to, g.affine) {
        (DType::U8 | DType::I32, DType::F32, None) => format!("(float){value}"),
        (DType::U8 | DType::I32, DType::F32, Some((s, b))) => {
            format!("fmaf((float){value}, {}, {})", constant(s), constant(b))
        }
        (_, _, Some((s, b))) => format!("fmaf({value}, {}, {})", constant(s), constant(b)),
        (_, _, None) => value,
    };
    let (table, out) = (typed(g.table, from), typed(g.out, to));
    // four bytes at once where rows begin at multiples of four
    if from == DType::U8 && to == DType::F32 && width.is_multiple_of(4) {
        let quarter = width / 4;
        text.line("#pragma unroll 2");
        text.block(format!("for (Index e = r0 * {quarter} + tid; e < r1 * {quarter}; e += THREADS)"), |text| {
            text.line(format!("const Index row = e / {quarter}, col = e % {quarter};"));
            index(text, g, "row");
            text.line(format!("const uchar4 v = ((const uchar4*){table})[from * {quarter} + col];"));
            let of = |part: &str| value(format!("v.{part}"));
            let four = format!("make_float4({}, {}, {}, {})", of("x"), of("y"), of("z"), of("w"));
            text.line(format!("((float4*){out})[e] = {four};"));
        });
        return;
    }
    text.line("#pragma unroll 2");
    text.block(format!("for (Index e = r0 * {width} + tid; e < r1 * {width}; e += THREADS)"), |text| {
        text.line(format!("const Index row = e / {0}, col = e % {0};", width.max(1)));
        index(text, g, "row");
        text.line(format!("{out}[e] = {};", value(format!("{table}[from * {width} + col]"))));
    });
}

/// A number outside the table reads row 0.
fn index(text: &mut Text, g: &Gather, row: &str) {
    text.line(format!("const u32 at = (u32)i32(mem{})[{row}];", g.indices));
    text.line(format!("const Index from = at < {}u ? at : 0;", g.table_rows));
}

/// Indices that a thread looks at together, and rows that it adds.
const LOOKED_AT: usize = 4;
const ADDED: usize = 8;

/// A unit is a row of the table. All threads look through the indices, a stretch at a time, and list where it is meant; then each adds
/// up a column of the listed rows in their order. Returns the floats of shared memory it needs.
pub fn scatter(text: &mut Text, sync: &mut Sync, s: &Scatter, threads: usize) -> usize {
    let Scatter { values, indices, out, rows, width, .. } = *s;
    let (warps, stretch) = (threads / 32, threads * LOOKED_AT);
    text.line(format!("int* const counts = (int*)shared; int* const listed = counts + {warps};"));
    text.block(format!("for (Index first = 0; first < {width}; first += THREADS)"), |text| {
        text.line(format!("const Index col = min(first + tid, (Index){});", width.saturating_sub(1)));
        text.line("float sum = 0.0f;");
        text.line("#pragma unroll 1");
        text.block(format!("for (int from = 0; from < {rows}; from += {stretch})"), |text| {
            text.line(format!("const int own = from + warp * {} + lane;", 32 * LOOKED_AT));
            text.line(format!("u32 meant[{LOOKED_AT}]; int count = 0, before = 0, all = 0;"));
            text.line("#pragma unroll");
            text.block(format!("for (int i = 0; i < {LOOKED_AT}; i++)"), |text| {
                let last = rows.saturating_sub(1);
                text.line(format!("const int at = i32(mem{indices})[min(own + 32 * i, {last})];"));
                text.line(format!("meant[i] = __ballot_sync(0xffffffffu, at == unit && own + 32 * i < {rows});"));
                text.line("count += __popc(meant[i]);");
            });
            // the stretch before is read no more
            text.line("if (from > 0 || first > 0) sync_group();");
            text.line("if (lane == 0) counts[warp] = count;");
            text.line("sync_group();");
            text.line("#pragma unroll");
            text.line(format!(
                "for (int w = 0; w < {warps}; w++) before += w < warp ? counts[w] : 0, all += counts[w];"
            ));
            text.line("#pragma unroll");
            text.block(format!("for (int i = 0; i < {LOOKED_AT}; i++)"), |text| {
                text.line("const u32 lower = meant[i] & ((1u << lane) - 1);");
                text.line("if (meant[i] >> lane & 1) listed[before + __popc(lower)] = own + 32 * i;");
                text.line("before += __popc(meant[i]);");
            });
            text.line("sync_group();");
            text.line("#pragma unroll 1");
            text.block(format!("for (int i = 0; i < all; i += {ADDED})"), |text| {
                text.line(format!("float in[{ADDED}];"));
                text.line("#pragma unroll");
                let row = "listed[min(i + j, all - 1)]";
                text.line(format!(
                    "for (int j = 0; j < {ADDED}; j++) in[j] = f32(mem{values})[{row} * (Index){width} + col];"
                ));
                text.line("#pragma unroll");
                text.line(format!("for (int j = 0; j < {ADDED}; j++) sum += i + j < all ? in[j] : 0.0f;"));
            });
        });
        text.line(format!("if (first + tid < {width}) f32(mem{out})[unit * (Index){width} + col] = sum;"));
    });
    sync.shared = true;
    warps + stretch
}

/// Four neighbours come from one block of the generator.
pub fn random(text: &mut Text, r: &Random, count: usize, key: usize) {
    let width = r.elements / count.max(1);
    let (out, stream) = (r.out, r.stream);
    text.line(format!("const u64 key = *(const u64*)(fed + {key});"));
    text.line(format!("const Index from = r0 * {width}, to = r1 * {width};"));
    text.block("for (Index e = from / 4 * 4 + 4 * tid; e < to; e += 4 * THREADS)", |text| {
        text.line(format!("const Four x = uniform4(key, {stream}ull, e);"));
        text.line(format!("if (e >= from && e + 4 <= to) store4(f32(mem{out}) + e, x);"));
        text.line("else");
        text.line("    #pragma unroll");
        text.line(format!(
            "    for (int i = 0; i < 4; i++) if (e + i >= from && e + i < to) f32(mem{out})[e + i] = x.v[i];"
        ));
    });
}

/// A warp a row; the first among equals, and not-a-number wins.
pub fn argmax(text: &mut Text, a: &ArgMax) {
    let cols = a.cols;
    text.block("for (Index row = r0 + warp; row < r1; row += WARPS)", |text| {
        text.line(format!("const float* x = f32(mem{}) + row * {cols};", a.input));
        text.line(format!("int best = min(lane, {});", cols.saturating_sub(1)));
        text.line("float top = x[best];");
        text.block(format!("for (int c = lane + 32; c < {cols}; c += 32)"), |text| {
            text.line("if (x[c] > top || (x[c] != x[c] && top == top)) best = c, top = x[c];");
        });
        text.block("for (int d = 16; d > 0; d /= 2)", |text| {
            text.line("const float y = __shfl_xor_sync(0xffffffffu, top, d);");
            text.line("const int i = __shfl_xor_sync(0xffffffffu, best, d);");
            text.line("const bool equal = y == top || (y != y && top != top);");
            text.line("const bool above = y > top || (y != y && top == top);");
            text.line("if (above || (equal && i < best)) best = i, top = y;");
        });
        text.line(format!("if (lane == 0) i32(mem{})[row] = best;", a.out));
    });
}
