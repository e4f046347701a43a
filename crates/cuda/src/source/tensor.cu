// --- matrix units -------------------------------------------------------------------------------------------------------

extern __shared__ __align__(1024) char stages[];

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// sixteen bytes on their way into shared memory, or zeros
__device__ __forceinline__ void copy16(u32 to, const char* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
// sixteen bytes, or zeros, into registers, and from there into shared memory
__device__ __forceinline__ uint4 load16(const char* from, bool there) {
    uint4 x;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
                 "@p ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w) : "l"(from), "r"((u32)there) : "memory");
    return x;
}
__device__ __forceinline__ void store16(u32 to, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
// four words from number `first` on, and behind them the ones before it
__device__ __forceinline__ uint4 words_from(uint4 x, int first) {
    const bool one = first & 1, two = first & 2;
    const uint4 y = make_uint4(one ? x.y : x.x, one ? x.z : x.y, one ? x.w : x.z, one ? x.x : x.w);
    return make_uint4(two ? y.z : y.x, two ? y.w : y.y, two ? y.x : y.z, two ? y.y : y.w);
}
// computed once, and not again where it is used
__device__ __forceinline__ void kept(int& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void kept(long long& x) { asm volatile("" : "+l"(x)); }
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_turned(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_four(u32 (&r)[4], u32 from) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_two(u32 (&r)[2], u32 from) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}
// Rounded to what the matrix units read: they cut the lower 13 bits off, so that a number grows by half of the last place that is
// left, on average, before. That is within 0.7 of a last place, even on average, in one instruction, and keeps what is not finite.
__device__ __forceinline__ u32 tf32(u32 x) { return __float_as_uint(__uint_as_float(x) * 1.00034f); }

__device__ __forceinline__ void multiply_tf32(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_fp16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if __CUDA_ARCH__ >= 900
// blocks that share a tile's sums: all have come so far, and see what the others have written
__device__ __forceinline__ void cluster_meets() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ int cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}
// four neighbours where this block has `p`, but in another's memory
__device__ __forceinline__ Four load4_of(int rank, const float* p) {
    u32 there;
    Four x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.v[0]), "=f"(x.v[1]), "=f"(x.v[2]), "=f"(x.v[3]) : "r"(there) : "memory");
    return x;
}
#endif

#if __CUDA_ARCH_FEAT_SM90_ALL
// a side of a product for groups of warps: rows of 128 bytes in eights of 1024, 64 across `k` in 8192, pieces that change places
__device__ __forceinline__ u64 group_side(u32 at) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)(8192 >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
// what this thread's copies have brought is seen by the matrix units, once all threads have met
__device__ __forceinline__ void groups_see() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void groups_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void groups_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// all but the last `N` stages have been multiplied
template <int N> __device__ __forceinline__ void groups_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
#endif
