// Control flow that a search for EXIT must see through: calls, tables, loops, barriers.
__device__ __noinline__ float slow(float a, int n) {
  for (int i = 0; i < n; i++) a = a * a + 1.0f / a;
  if (a > 3) asm volatile("trap;");
  return a;
}

__global__ void calls(float *x, int n) {
  if (n < 0) x[1] = slow(x[1], 2);
  x[threadIdx.x] = slow(x[threadIdx.x], n);
}

__global__ void table(float *x, int n) {
  switch (n) {
    case 0: x[0] = x[1] * 3; break;
    case 1: x[1] = x[0] + 7; __syncthreads(); x[2] = x[1]; break;
    case 2: x[2] = x[3] - x[4]; break;
    case 3: asm volatile("trap;");
    case 4: x[4] = x[9] * x[9]; break;
    case 5: x[5] = 1; break;
    case 6: x[6] = x[1] - 1; break;
    default: x[0] = x[8];
  }
}

__global__ void diverges(float *x, int n) {
  if (threadIdx.x & 1) {
    for (int i = 0; i < n; i++) x[i] += slow(x[i], i);
  } else {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);
  }
  __syncthreads();
  x[n] = x[threadIdx.x];
}

__global__ void forever(volatile int *x) {
  while (true) *x = 1;
}
