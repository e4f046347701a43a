// --- the rows of a chunk of steps, drawn from a keyed permutation: citius_data::Network -----------------------------------

struct Draw {
    char* fed;
    u64 first, seed;                // number of the first step, seed of the run
    u32 steps, batch, stride;       // stride: bytes that a step is fed
    int rows_at, step_at, key_at;   // places among them; -1: not there
    u32 start, rows, blocks, low_bits, rounds;
    u32 keys[12][4];
};

__device__ __forceinline__ u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ u32 permute(const Draw& d, u32 x) {
    u32 hi = x >> d.low_bits, lo = x & ((1u << d.low_bits) - 1);
    for (u32 round = 0; round < d.rounds; ++round) {
        const u32* k = d.keys[round];
        hi += (u32)((u64)(k[0] * lo + k[1]) * d.blocks >> 32);
        hi = min(hi, hi - d.blocks);
        lo ^= (k[2] * hi + k[3]) >> 16 >> (16 - d.low_bits);
    }
    return hi << d.low_bits | lo;
}

extern "C" __global__ void draw(const __grid_constant__ Draw d) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < d.steps) {
        char* at = d.fed + i * d.stride;
        if (d.step_at >= 0) *(float*)(at + d.step_at) = (float)(d.first + i);
        if (d.key_at >= 0) *(u64*)(at + d.key_at) = mix(d.seed ^ mix(d.first + i));
    }
    if (i >= (u64)d.steps * d.batch) return;
    u32 row = permute(d, (u32)((d.start + i) % d.rows));
    while (row >= d.rows) row = permute(d, row);
    ((int*)(d.fed + i / d.batch * d.stride + d.rows_at))[i % d.batch] = (int)row;
}
