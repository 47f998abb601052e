// What every kernel begins with. The emulated driver compiles it too, after its own prelude, which defines THALWEG_EMULATED and what is left out here.
#ifndef THALWEG_EMULATED
// The one parameter of a kernel, `a`.
#define THALWEG_PARAMETER(K) const __grid_constant__ Words<K> a
// Dynamic shared memory as bytes; within a function.
#define THALWEG_SHARED(name) extern __shared__ __align__(16) unsigned char name[];
#endif

template <int K> struct Words {
    unsigned long long w[K];
};
