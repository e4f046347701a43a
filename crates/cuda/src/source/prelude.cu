// What every generated kernel begins with. THREADS, GROUPS, BLOCKS and Args come before it.
//
// A group of THREADS threads runs units by itself. A block on a multiprocessor is GROUPS of them.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

#define WARPS (THREADS / 32)
#define TEAMS (BLOCKS * GROUPS)

// neighbours in number sit on different multiprocessors
#define TEAM ((int)(threadIdx.x / THREADS * BLOCKS + blockIdx.x))

// --- barriers: of a group, of all groups --------------------------------------------------------------------------------

__device__ __forceinline__ void sync_group() {
#if GROUPS == 1
    __syncthreads();
#elif THREADS == 32
    __syncwarp();
#else
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / THREADS), "n"(THREADS) : "memory");
#endif
}

__device__ __forceinline__ void all_groups(u32* counter, u32& goal) {
#if BLOCKS == 1
    __syncthreads();
#elif BLOCKS <= 16 && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
    if (threadIdx.x == 0) {
        goal += BLOCKS;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        u32 seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        } while ((int)(seen - goal) < 0);
    }
    __syncthreads();
#endif
}

// Blocks of a level may be there before the one before has ended; they go on when it has.
__device__ __forceinline__ void level_begins() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// --- elements -----------------------------------------------------------------------------------------------------------

// read and written as floats: bfloat16, the upper half of one, and the 16-bit float of IEEE
struct Bf16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const { return __uint_as_float((u32)bits << 16); }
    __device__ __forceinline__ void operator=(float x) {
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
};
struct Fp16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
    __device__ __forceinline__ void operator=(float x) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
};

__device__ __forceinline__ float* f32(char* p) { return (float*)p; }
__device__ __forceinline__ Bf16* f32(Bf16* p) { return p; }
__device__ __forceinline__ Fp16* f32(Fp16* p) { return p; }
__device__ __forceinline__ int* i32(char* p) { return (int*)p; }
__device__ __forceinline__ u8* bytes(char* p) { return (u8*)p; }

// four neighbours at once
struct Four {
    float v[4];
};
__device__ __forceinline__ Four load4(const float* p) {
    const float4 x = *(const float4*)p;
    return {{x.x, x.y, x.z, x.w}};
}
__device__ __forceinline__ Four load4(const Bf16* p) {
    const uint2 x = *(const uint2*)p;
    return {{__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u), __uint_as_float(x.y << 16),
             __uint_as_float(x.y & 0xffff0000u)}};
}
__device__ __forceinline__ Four load4(const Fp16* p) {
    const uint2 x = *(const uint2*)p;
    const Fp16* e = (const Fp16*)&x;
    return {{e[0], e[1], e[2], e[3]}};
}
__device__ __forceinline__ void store4(float* p, const Four& x) {
    *(float4*)p = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
}
__device__ __forceinline__ void store4(Bf16* p, const Four& x) {
    uint2 y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y.x) : "f"(x.v[1]), "f"(x.v[0]));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y.y) : "f"(x.v[3]), "f"(x.v[2]));
    *(uint2*)p = y;
}
__device__ __forceinline__ void store4(Fp16* p, const Four& x) {
    uint2 y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y.x) : "f"(x.v[1]), "f"(x.v[0]));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y.y) : "f"(x.v[3]), "f"(x.v[2]));
    *(uint2*)p = y;
}

// --- arithmetic of map ops ----------------------------------------------------------------------------------------------

// not-a-number wins, as in PyTorch
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float smaller(float a, float b) { return a < b || a != a ? a : b; }
__device__ __forceinline__ float truth(bool t) { return t ? 1.0f : 0.0f; }

#define MINUS_INFINITY __int_as_float(0xff800000)

// --- asking for what will be read soon ----------------------------------------------------------------------------------

__device__ __forceinline__ void soon(const char* from, int bytes) {
#pragma unroll 1
    for (int i = threadIdx.x % THREADS * 128; i < bytes; i += THREADS * 128) asm volatile("prefetch.global.L1 [%0];" ::"l"(from + i));
}

// --- folds, always in the same order ------------------------------------------------------------------------------------

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
__device__ __forceinline__ float max_of_warp(float x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

// what the units of a loop left, added up by one warp
__device__ __forceinline__ float sum_of_parts(const float* parts, int n) {
    float x = 0;
#pragma unroll 2
    for (int i = threadIdx.x % 32; i < n; i += 32) x += parts[i];
    return sum_of_warp(x);
}
__device__ __forceinline__ float max_of_parts(const float* parts, int n) {
    float x = MINUS_INFINITY;
#pragma unroll 2
    for (int i = threadIdx.x % 32; i < n; i += 32) x = larger(x, parts[i]);
    return max_of_warp(x);
}

// --- counter-based random numbers: Philox4x32-10 ------------------------------------------------------------------------

// numbers index .. index + 4 of a stream; index is a multiple of 4
__device__ __forceinline__ Four uniform4(u64 key, u64 stream, u64 index) {
    u64 block = index / 4;
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)stream, c3 = (u32)(stream >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
    for (int i = 0; i < 10; i++) {
        u64 p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        u32 a = (u32)(p1 >> 32) ^ c1 ^ k0, b = (u32)p1, c = (u32)(p0 >> 32) ^ c3 ^ k1, d = (u32)p0;
        c0 = a, c1 = b, c2 = c, c3 = d;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const float unit = 1.0f / 16777216.0f;
    return {{(float)(c0 >> 8) * unit, (float)(c1 >> 8) * unit, (float)(c2 >> 8) * unit, (float)(c3 >> 8) * unit}};
}

#ifdef TIMED
// cycles of each part of a step, for each block
__device__ __forceinline__ void tick(const Args& args, int slot, long long& before) {
    long long now = clock64();
    if (threadIdx.x % THREADS == 0) args.ticks[TEAM * 1024 + slot] += now - before;
    before = clock64();
}
#endif
