static __device__ __noinline__ void fibre0(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 1, r1 = min(r0 + 1, (Index)1);
    
    // constant  # schedules.rs:35
    {
        if (warp < 1) {
            #pragma unroll 1
            for (Index e = r0 * 1 + tid; e < r1 * 1; e += 32) {
                const float v0 = 1e-3f;
                f32(mem13)[0] = v0;
            }
        }
    }
}


static __device__ __noinline__ void fibre1(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 8, r1 = min(r0 + 8, (Index)8);
    
    // matmul → relu  # schedules.rs:30 (in 0 Linear 3→4)
    {
        const Index c0 = 0;
        for (int pos = tid; pos < 32; pos += THREADS) {
            const int x = pos % 4, y = pos / 4;
            float acc[1][1] = {};
            const Index row0 = min(r0 + y * 1 + 0, (Index)7);
            const Index at0 = row0 * 3;
            const Index col0 = min(c0 + x + 0, (Index)3);
            const float* A = f32(mem2) + 0;
            const float* B = f32(mem3) + 0;
            #pragma unroll
            for (int i = 0; i < 3; i++) {
                const int turn = i;
                const int k = turn;
                const float a0 = A[at0 + (Index)k * 1];
                const float b0_0 = B[(Index)(k + 0) * 4 + col0 * 1];
                acc[0][0] = fmaf(a0, b0_0, acc[0][0]);
            }
            if (y * 1 + 0 < 8 && x + 0 < 4 && r0 + y * 1 + 0 < r1 && c0 + x + 0 < 4) {
                const float v0 = acc[0][0];
                const float v1 = f32(mem4)[(c0 + x + 0)];
                const float v2 = v0 + v1;
                const float v3 = 0e0f;
                const float v4 = larger(v2, v3);
                f32(mem5)[4 * ((r0 + y * 1 + 0)) + (c0 + x + 0)] = v4;
            }
        }
    }
    
    // matmul → mul  # schedules.rs:30 (in 2 Linear 4→1)
    sync_group();
    {
        const Index c0 = 0;
        for (int pos = tid; pos < 8; pos += THREADS) {
            const int x = pos % 1, y = pos / 1;
            float acc[1][1] = {};
            const Index row0 = min(r0 + y * 1 + 0, (Index)7);
            const Index at0 = row0 * 4;
            const Index col0 = min(c0 + x + 0, (Index)0);
            const float* A = f32(mem5) + 0;
            const float* B = f32(mem6) + 0;
            #pragma unroll
            for (int i = 0; i < 1; i++) {
                const int turn = i;
                const int k = turn * 4;
                const float4 a0 = *(const float4*)(A + at0 + k);
                const float b0_0 = B[(Index)(k + 0) * 1 + col0 * 1];
                const float b1_0 = B[(Index)(k + 1) * 1 + col0 * 1];
                const float b2_0 = B[(Index)(k + 2) * 1 + col0 * 1];
                const float b3_0 = B[(Index)(k + 3) * 1 + col0 * 1];
                acc[0][0] = fmaf(a0.x, b0_0, acc[0][0]);
                acc[0][0] = fmaf(a0.y, b1_0, acc[0][0]);
                acc[0][0] = fmaf(a0.z, b2_0, acc[0][0]);
                acc[0][0] = fmaf(a0.w, b3_0, acc[0][0]);
            }
            if (y * 1 + 0 < 8 && x + 0 < 1 && r0 + y * 1 + 0 < r1 && c0 + x + 0 < 1) {
                const float v0 = acc[0][0];
                const float v1 = 1.25e-1f;
                const float v2 = f32(mem8)[0];
                const float v3 = v0 + v2;
                const float v4 = f32(mem10)[(r0 + y * 1 + 0)];
                const float v5 = v3 - v4;
                const float v6 = 2e0f;
                const float v7 = v5 * v6;
                const float v8 = v1 * v7;
                f32(mem7)[(r0 + y * 1 + 0)] = v0;
                f32(mem14)[(r0 + y * 1 + 0)] = v8;
            }
        }
    }
    
    // sum  # schedules.rs:32
    sync_group();
    {
        if (warp < 1) {
            float fold0 = 0.0f;
            #pragma unroll 1
            for (Index e = r0 * 1 + tid; e < r1 * 1; e += 32) {
                const float v0 = f32(mem7)[e];
                const float v1 = f32(mem8)[0];
                const float v2 = v0 + v1;
                const float v3 = f32(mem10)[e];
                const float v4 = v2 - v3;
                const float v5 = v4 * v4;
                fold0 = fold0 + v5;
            }
            fold0 = sum_of_warp(fold0);
            if (lane == 0) f32(mem11)[0] = fold0;
        }
    }
    
    // matmul → choose  # schedules.rs:30 (in 2 Linear 4→1)
    {
        const Index c0 = 0;
        for (int pos = tid; pos < 32; pos += THREADS) {
            const int x = pos % 4, y = pos / 4;
            float acc[1][1] = {};
            const Index row0 = min(r0 + y * 1 + 0, (Index)7);
            const Index at0 = row0 * 1;
            const Index col0 = min(c0 + x + 0, (Index)3);
            const float* A = f32(mem14) + 0;
            const float* B = f32(mem6) + 0;
            #pragma unroll
            for (int i = 0; i < 1; i++) {
                const int turn = i;
                const int k = turn;
                const float a0 = A[at0 + (Index)k * 1];
                const float b0_0 = B[(Index)(k + 0) * 1 + col0 * 1];
                acc[0][0] = fmaf(a0, b0_0, acc[0][0]);
            }
            if (y * 1 + 0 < 8 && x + 0 < 4 && r0 + y * 1 + 0 < r1 && c0 + x + 0 < 4) {
                const float v0 = 0e0f;
                const float v1 = f32(mem5)[4 * ((r0 + y * 1 + 0)) + (c0 + x + 0)];
                const float v2 = truth(v0 < v1);
                const float v3 = acc[0][0];
                const float v4 = v2 != 0.0f ? v3 : v0;
                f32(mem15)[4 * ((r0 + y * 1 + 0)) + (c0 + x + 0)] = v4;
            }
        }
    }
    
    // sum  # schedules.rs:30 (in 2 Linear 4→1)
    {
        if (warp < 1) {
            float fold0 = 0.0f;
            #pragma unroll 1
            for (Index e = r0 * 1 + tid; e < r1 * 1; e += 32) {
                const float v0 = f32(mem14)[e];
                fold0 = fold0 + v0;
            }
            fold0 = sum_of_warp(fold0);
            if (lane == 0) f32(mem22)[0] = fold0;
        }
    }
}


static __device__ __noinline__ void fibre2(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 4, r1 = min(r0 + 4, (Index)4);
    
    // sum  # schedules.rs:30 (in 0 Linear 3→4)
    {
        for (Index first = r0; first < r1; first += 4) {
            const int x = tid % 4, y = tid / 4;
            const Index col = first + x;
            float fold0 = 0.0f;
            if (col < r1)
            #pragma unroll 4
            for (Index row = y; row < 8; row += 16) {
                const float v0 = f32(mem15)[4 * (row) + col];
                fold0 = fold0 + v0;
            }
            sync_group();
            shared[0 * THREADS + tid] = fold0;
            sync_group();
            if (y == 0 && col < r1) {
                float x0 = 0.0f;
                for (int j = 0; j < 16; j++) x0 = x0 + shared[0 * THREADS + x + j * 4];
                f32(mem18)[col] = x0;
            }
        }
    }
}


static __device__ __noinline__ void fibre3(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    
    // matmul  # schedules.rs:30 (in 2 Linear 4→1)
    {
        const int in_outer = unit % 1;
        const Index r0 = in_outer / 1 * 4, c0 = in_outer % 1 * 1;
        const Index r1 = min(r0 + 4, (Index)4);
        for (int pos = tid; pos < 4; pos += THREADS) {
            const int x = pos % 1, y = pos / 1;
            float acc[1][1] = {};
            const Index row0 = min(r0 + y * 1 + 0, (Index)3);
            const Index at0 = row0 * 1;
            const Index col0 = min(c0 + x + 0, (Index)0);
            const float* A = f32(mem5) + 0;
            const float* B = f32(mem14) + 0;
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                const int turn = i;
                const int k = turn;
                const float a0 = A[at0 + (Index)k * 4];
                const float b0_0 = B[(Index)(k + 0) * 1 + col0 * 1];
                acc[0][0] = fmaf(a0, b0_0, acc[0][0]);
            }
            if (y * 1 + 0 < 4 && x + 0 < 1 && r0 + y * 1 + 0 < r1 && c0 + x + 0 < 1) {
                const float v0 = acc[0][0];
                f32(mem20)[(r0 + y * 1 + 0)] = v0;
            }
        }
    }
}


static __device__ __noinline__ void fibre4(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    
    // matmul  # schedules.rs:30 (in 0 Linear 3→4)
    {
        const int in_outer = unit % 1;
        const Index r0 = in_outer / 1 * 3, c0 = in_outer % 1 * 4;
        const Index r1 = min(r0 + 3, (Index)3);
        for (int pos = tid; pos < 12; pos += THREADS) {
            const int x = pos % 4, y = pos / 4;
            float acc[1][1] = {};
            const Index row0 = min(r0 + y * 1 + 0, (Index)2);
            const Index at0 = row0 * 1;
            const Index col0 = min(c0 + x + 0, (Index)3);
            const float* A = f32(mem2) + 0;
            const float* B = f32(mem15) + 0;
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                const int turn = i;
                const int k = turn;
                const float a0 = A[at0 + (Index)k * 3];
                const float b0_0 = B[(Index)(k + 0) * 4 + col0 * 1];
                acc[0][0] = fmaf(a0, b0_0, acc[0][0]);
            }
            if (y * 1 + 0 < 3 && x + 0 < 4 && r0 + y * 1 + 0 < r1 && c0 + x + 0 < 4) {
                const float v0 = acc[0][0];
                f32(mem16)[4 * ((r0 + y * 1 + 0)) + (c0 + x + 0)] = v0;
            }
        }
    }
}


static __device__ __noinline__ void fibre5(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 1, r1 = min(r0 + 1, (Index)1);
    
    // all parts of: sum  # schedules.rs:32
    
    // all parts of: sum  # schedules.rs:30 (in 2 Linear 4→1)
    
    // mul, square, add, sub, div, square, maximum  # schedules.rs:35 (in update of 2.bias)
    sync_group();
    {
        if (warp < 1) {
            #pragma unroll 1
            for (Index e = r0 * 1 + tid; e < r1 * 1; e += 32) {
                const float v0 = f32(mem11)[0];
                const float v1 = 1.25e-1f;
                const float v2 = v0 * v1;
                const float v3 = f32(mem22)[0];
                const float v4 = v3 * v3;
                const float v5 = f32(mem49)[0];
                const float v6 = v3 - v5;
                const float v7 = 1e-1f;
                const float v8 = fmaf(v6, v7, v5);
                const float v9 = f32(mem51)[0];
                const float v10 = 9.99e-1f;
                const float v11 = 1e-3f;
                const float v12 = v4 * v11;
                const float v13 = fmaf(v9, v10, v12);
                const float v14 = f32(mem8)[0];
                const float v15 = f32(mem25)[0];
                const float v16 = 1e0f;
                const float v17 = v15 + v16;
                const float v18 = -5.2680258e-2f;
                const float v19 = v17 * v18;
                const float v20 = tanhf(v19);
                const float v21 = 2e0f;
                const float v22 = v20 * v21;
                const float v23 = v20 - v16;
                const float v24 = v22 / v23;
                const float v25 = v11 / v24;
                const float v26 = v25 * v8;
                const float v27 = sqrtf(v13);
                const float v28 = -5.0025014e-4f;
                const float v29 = v17 * v28;
                const float v30 = tanhf(v29);
                const float v31 = v30 * v21;
                const float v32 = v30 - v16;
                const float v33 = v31 / v32;
                const float v34 = sqrtf(v33);
                const float v35 = v16 / v34;
                const float v36 = 1e-8f;
                const float v37 = fmaf(v27, v35, v36);
                const float v38 = v26 / v37;
                const float v39 = v14 - v38;
                const float v40 = v39 - v14;
                const float v41 = v40 * v40;
                const float v42 = v14 * v14;
                const float v43 = f32(mem58)[0];
                const float v44 = fabsf(v3);
                const float v45 = larger(v43, v44);
                f32(mem12)[0] = v2;
                f32(mem23)[0] = v4;
                f32(mem49)[0] = v8;
                f32(mem51)[0] = v13;
                f32(mem8)[0] = v39;
                f32(mem26)[0] = v25;
                f32(mem31)[0] = v35;
                f32(mem54)[0] = v41;
                f32(mem55)[0] = v42;
                f32(mem58)[0] = v45;
            }
        }
    }
}


static __device__ __noinline__ void fibre6(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 1, r1 = min(r0 + 1, (Index)1);
    
    // sum, add, sub, sum  # schedules.rs:35 (in update of 0.weight)
    {
        if (warp < 1) {
            float fold0 = 0.0f;
            float fold1 = 0.0f;
            float fold2 = 0.0f;
            #pragma unroll 1
            for (Index e = r0 * 12 + tid; e < r1 * 12; e += 32) {
                const float v0 = f32(mem16)[e];
                const float v1 = v0 * v0;
                const float v2 = f32(mem27)[e];
                const float v3 = v0 - v2;
                const float v4 = 1e-1f;
                const float v5 = fmaf(v3, v4, v2);
                const float v6 = f32(mem29)[e];
                const float v7 = 9.99e-1f;
                const float v8 = 1e-3f;
                const float v9 = v1 * v8;
                const float v10 = fmaf(v6, v7, v9);
                const float v11 = f32(mem3)[e];
                const float v12 = f32(mem26)[0];
                const float v13 = v12 * v5;
                const float v14 = sqrtf(v10);
                const float v15 = f32(mem31)[0];
                const float v16 = 1e-8f;
                const float v17 = fmaf(v14, v15, v16);
                const float v18 = v13 / v17;
                const float v19 = v11 - v18;
                const float v20 = v19 - v11;
                const float v21 = v20 * v20;
                const float v22 = v11 * v11;
                f32(mem27)[e] = v5;
                f32(mem29)[e] = v10;
                f32(mem3)[e] = v19;
                fold0 = fold0 + v1;
                fold1 = fold1 + v21;
                fold2 = fold2 + v22;
            }
            fold0 = sum_of_warp(fold0);
            if (lane == 0) f32(mem17)[0] = fold0;
            fold1 = sum_of_warp(fold1);
            if (lane == 0) f32(mem33)[0] = fold1;
            fold2 = sum_of_warp(fold2);
            if (lane == 0) f32(mem34)[0] = fold2;
        }
    }
    
    // all parts of: sum, add, sub, sum  # schedules.rs:35 (in update of 0.weight)
    sync_group();
    
    // sum, add, sub, sum, maximum  # schedules.rs:35 (in update of 0.bias)
    {
        if (warp < 1) {
            float fold0 = 0.0f;
            float fold1 = 0.0f;
            float fold2 = 0.0f;
            #pragma unroll 1
            for (Index e = r0 * 4 + tid; e < r1 * 4; e += 32) {
                const float v0 = f32(mem18)[e];
                const float v1 = v0 * v0;
                const float v2 = f32(mem35)[e];
                const float v3 = v0 - v2;
                const float v4 = 1e-1f;
                const float v5 = fmaf(v3, v4, v2);
                const float v6 = f32(mem37)[e];
                const float v7 = 9.99e-1f;
                const float v8 = 1e-3f;
                const float v9 = v1 * v8;
                const float v10 = fmaf(v6, v7, v9);
                const float v11 = f32(mem4)[e];
                const float v12 = f32(mem26)[0];
                const float v13 = v12 * v5;
                const float v14 = sqrtf(v10);
                const float v15 = f32(mem31)[0];
                const float v16 = 1e-8f;
                const float v17 = fmaf(v14, v15, v16);
                const float v18 = v13 / v17;
                const float v19 = v11 - v18;
                const float v20 = v19 - v11;
                const float v21 = v20 * v20;
                const float v22 = v11 * v11;
                const float v23 = f32(mem56)[e];
                const float v24 = fabsf(v0);
                const float v25 = larger(v23, v24);
                f32(mem35)[e] = v5;
                f32(mem37)[e] = v10;
                f32(mem4)[e] = v19;
                f32(mem56)[e] = v25;
                fold0 = fold0 + v1;
                fold1 = fold1 + v21;
                fold2 = fold2 + v22;
            }
            fold0 = sum_of_warp(fold0);
            if (lane == 0) f32(mem19)[0] = fold0;
            fold1 = sum_of_warp(fold1);
            if (lane == 0) f32(mem40)[0] = fold1;
            fold2 = sum_of_warp(fold2);
            if (lane == 0) f32(mem41)[0] = fold2;
        }
    }
    
    // all parts of: sum, add, sub, sum, maximum  # schedules.rs:35 (in update of 0.bias)
    sync_group();
    
    // sum, add, sub, sum  # schedules.rs:35 (in update of 2.weight)
    {
        if (warp < 1) {
            float fold0 = 0.0f;
            float fold1 = 0.0f;
            float fold2 = 0.0f;
            #pragma unroll 1
            for (Index e = r0 * 4 + tid; e < r1 * 4; e += 32) {
                const float v0 = f32(mem20)[e];
                const float v1 = v0 * v0;
                const float v2 = f32(mem42)[e];
                const float v3 = v0 - v2;
                const float v4 = 1e-1f;
                const float v5 = fmaf(v3, v4, v2);
                const float v6 = f32(mem44)[e];
                const float v7 = 9.99e-1f;
                const float v8 = 1e-3f;
                const float v9 = v1 * v8;
                const float v10 = fmaf(v6, v7, v9);
                const float v11 = f32(mem6)[e];
                const float v12 = f32(mem26)[0];
                const float v13 = v12 * v5;
                const float v14 = sqrtf(v10);
                const float v15 = f32(mem31)[0];
                const float v16 = 1e-8f;
                const float v17 = fmaf(v14, v15, v16);
                const float v18 = v13 / v17;
                const float v19 = v11 - v18;
                const float v20 = v19 - v11;
                const float v21 = v20 * v20;
                const float v22 = v11 * v11;
                f32(mem42)[e] = v5;
                f32(mem44)[e] = v10;
                f32(mem6)[e] = v19;
                fold0 = fold0 + v1;
                fold1 = fold1 + v21;
                fold2 = fold2 + v22;
            }
            fold0 = sum_of_warp(fold0);
            if (lane == 0) f32(mem21)[0] = fold0;
            fold1 = sum_of_warp(fold1);
            if (lane == 0) f32(mem47)[0] = fold1;
            fold2 = sum_of_warp(fold2);
            if (lane == 0) f32(mem48)[0] = fold2;
        }
    }
    
    // all parts of: sum, add, sub, sum  # schedules.rs:35 (in update of 2.weight)
    sync_group();
    
    // sqrt  # clip.rs:45
    sync_group();
    {
        if (warp < 1) {
            #pragma unroll 1
            for (Index e = r0 * 1 + tid; e < r1 * 1; e += 32) {
                const float v0 = f32(mem17)[0];
                const float v1 = f32(mem19)[0];
                const float v2 = v0 + v1;
                const float v3 = f32(mem21)[0];
                const float v4 = v2 + v3;
                const float v5 = f32(mem23)[0];
                const float v6 = v4 + v5;
                const float v7 = sqrtf(v6);
                f32(mem24)[0] = v7;
            }
        }
    }
}


static __device__ __noinline__ void fibre7(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 8, r1 = min(r0 + 8, (Index)8);
    
    // gather_rows  # schedules.rs:32
    {
        #pragma unroll 2
        for (Index e = r0 * 1 + tid; e < r1 * 1; e += THREADS) {
            const Index row = e / 1, col = e % 1;
            const u32 at = (u32)i32(mem1)[row];
            const Index from = at < 100u ? at : 0;
            f32(mem10)[e] = f32(mem9)[from * 1 + col];
        }
    }
}


static __device__ __noinline__ void fibre8(const Args& args, char* scratch, char* leaves, char* fed, char* results, const unsigned s, const int unit, float* shared)
{
    const int tid = threadIdx.x % THREADS, lane = tid % 32, warp = tid / 32;
    const Index r0 = (Index)unit * 8, r1 = min(r0 + 8, (Index)8);
    
    // gather_rows  # schedules.rs:28
    {
        #pragma unroll 2
        for (Index e = r0 * 3 + tid; e < r1 * 3; e += THREADS) {
            const Index row = e / 3, col = e % 3;
            const u32 at = (u32)i32(mem1)[row];
            const Index from = at < 100u ? at : 0;
            f32(mem2)[e] = f32(mem0)[from * 3 + col];
        }
    }
}


extern "C" __global__ void __launch_bounds__(THREADS * GROUPS, 1) steps(const __grid_constant__ Args args) {
    __shared__ __align__(16) float all_shared[GROUPS * 64];
    float* const shared = all_shared + threadIdx.x / THREADS * 64;
    u32 goal = 0;
    char *const scratch = args.scratch, *const leaves = args.leaves;
    for (int e = threadIdx.x; e < 2560; e += GROUPS * THREADS) ((int*)chip)[e] = ((int*)scratch)[e];
    for (int e = threadIdx.x; e < 896; e += GROUPS * THREADS) ((int*)(chip + 10240))[e] = ((int*)leaves)[e];
    __syncthreads();
    if (args.steps > 0) {
        {
            const unsigned s = 0;
            char* const fed = args.fed + s * 48ull;
            char* const results = args.results + s * 240ull;
            for (int u = TEAM; u < 2; u += TEAMS) {
                if (u < 1) fibre7(args, scratch, leaves, fed, results, s, u - 0, shared);
                else fibre8(args, scratch, leaves, fed, results, s, u - 1, shared);
                sync_group();
            }
        }
        all_groups(args.barrier, goal);
    }
    for (unsigned n = 0; n < args.steps; n++) {
        {
            const unsigned s = n;
            char* const fed = args.fed + s * 48ull;
            char* const results = args.results + s * 240ull;
            for (int u = TEAM; u < 2; u += TEAMS) {
                if (u < 1) fibre0(args, scratch, leaves, fed, results, s, u - 0, shared);
                else fibre1(args, scratch, leaves, fed, results, s, u - 1, shared);
                sync_group();
            }
        }
        all_groups(args.barrier, goal);
        {
            const unsigned s = n;
            char* const fed = args.fed + s * 48ull;
            char* const results = args.results + s * 240ull;
            for (int u = TEAM; u < 4; u += TEAMS) {
                if (u < 1) fibre2(args, scratch, leaves, fed, results, s, u - 0, shared);
                else if (u < 2) fibre3(args, scratch, leaves, fed, results, s, u - 1, shared);
                else if (u < 3) fibre4(args, scratch, leaves, fed, results, s, u - 2, shared);
                else fibre5(args, scratch, leaves, fed, results, s, u - 3, shared);
                sync_group();
            }
        }
        all_groups(args.barrier, goal);
        {
            const unsigned s = n;
            char* const fed = args.fed + s * 48ull;
            char* const results = args.results + s * 240ull;
            for (int u = TEAM; u < 1; u += TEAMS) {
                fibre6(args, scratch, leaves, fed, results, s, u - 0, shared);
                sync_group();
            }
        }
        if (n + 1 < args.steps)
        {
            const unsigned s = n + 1;
            char* const fed = args.fed + s * 48ull;
            char* const results = args.results + s * 240ull;
            const int turn = (TEAM + TEAMS - 1 % TEAMS) % TEAMS;
            for (int u = turn; u < 2; u += TEAMS) {
                if (u < 1) fibre7(args, scratch, leaves, fed, results, s, u - 0, shared);
                else fibre8(args, scratch, leaves, fed, results, s, u - 1, shared);
                sync_group();
            }
        }
        all_groups(args.barrier, goal);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < 896; e += GROUPS * THREADS) ((int*)leaves)[e] = ((int*)(chip + 10240))[e];
}
