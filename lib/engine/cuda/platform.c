/* platform.c - what the drivers of CUDA and of HIP call things, and where they are found. */
#include "lib/engine/cuda/driver.h"

/* Lists of images, made by the Makefile. */
extern const unsigned char *const zt_cu_images[], *const zt_hip_images[];

/* ---- CUDA ------------------------------------------------------------------------------------ */

static const char *const cuda_symbols[] = {
#define X(cuda, hip, name, params) #cuda,
    ZT_CU_API(X)
#undef X
};
static const int cuda_attributes[] = {
#define X(name, cuda, hip) cuda,
    ZT_CU_ATTRIBUTES(X)
#undef X
};
static const char *const cuda_libraries[] = {"libcuda.so.1", NULL};

const zt_cu_platform zt_cu_nvidia = {
    .engine = "cuda",
    .prefix = "cu",
    .language = "CUDA",
    .named_by = "ZT_LIBCUDA",
    .libraries = cuda_libraries,
    .oldest = "11.4",
    .compiler = "nvcc",
    .images = zt_cu_images,
    .symbols = cuda_symbols,
    .attributes = cuda_attributes,
    .least = 80,
    .wave = 32,
    .fp8 = 89,
    .major = 1000,
    .minor = 10,
};

/* ---- HIP ------------------------------------------------------------------------------------- */

/* The names are all longer than "none". */
static const char *const hip_symbols[] = {
#define X(cuda, hip, name, params) sizeof #hip > sizeof "none" ? #hip : NULL,
    ZT_CU_API(X)
#undef X
};
static const int hip_attributes[] = {
#define X(name, cuda, hip) hip,
    ZT_CU_ATTRIBUTES(X)
#undef X
};
static const char *const hip_libraries[] = {
    "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so", NULL};

/* Waves of 64 are two warps (prim_hip.h). Every block may have all shared memory there is. */
const zt_cu_platform zt_cu_amd = {
    .engine = "hip",
    .prefix = "hip",
    .language = "HIP",
    .named_by = "ZT_LIBHIP",
    .libraries = hip_libraries,
    .oldest = "5.2",
    .compiler = "hipcc",
    .images = zt_hip_images,
    .symbols = hip_symbols,
    .text = "hipGetErrorString",
    .attributes = hip_attributes,
    .wave = 64,
    .major = 10000000,
    .minor = 100000,
};
