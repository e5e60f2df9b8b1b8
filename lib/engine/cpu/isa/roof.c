/* roof.c - the roof's loops: independent chains of one instruction, enough of them to hide its
 * latency; reading and copying, eight registers a round.
 *
 * Each accumulator passes through an empty asm, so that the compiler neither folds the rounds nor
 * keeps them apart from the registers. Scalar is what the baseline has: vectors of 16 bytes.
 */
#include "lib/engine/cpu/isa/roof.h"

#include "lib/engine/cpu/isa/amx.h"

#if defined(ZT_ISA_avx2) || defined(ZT_ISA_avx512)
#include <immintrin.h>
#elif defined(ZT_ISA_neon)
#include <arm_neon.h>
#endif

#if defined(__x86_64__)
#define IN_REGISTER(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define IN_REGISTER(x) __asm__ volatile("" : "+w"(x))
#else
#define IN_REGISTER(x) __asm__ volatile("" : "+m"(x))
#endif
/* v where masks are registers too. */
#if defined(ZT_ISA_avx512)
#undef IN_REGISTER
#define IN_REGISTER(x) __asm__ volatile("" : "+v"(x))
#endif

/* Chains: latency times instructions a cycle is 8 to 10; AVX2's 16 registers leave room for 12. */
enum { CHAINS = 12 };
#if defined(__clang__)
#define UNROLLED_FOR _Pragma("clang loop unroll(full)") for
#else
#define UNROLLED_FOR _Pragma("GCC unroll 12") for
#endif
#define EACH_CHAIN UNROLLED_FOR (int c = 0; c < CHAINS; c++)

/* void name(n): CHAINS accumulators of `type`, each `step`ped n times. */
// clang-format off
#define PEAK_LOOP(name, type, zero, step)                                                          \
    static void name(int64_t n)                                                                    \
    {                                                                                              \
        type acc[CHAINS], a = zero, b = zero;                                                      \
        IN_REGISTER(a);                                                                            \
        IN_REGISTER(b);                                                                            \
        EACH_CHAIN acc[c] = zero;                                                                  \
        for (int64_t i = 0; i < n; i++) EACH_CHAIN                                                 \
            {                                                                                      \
                acc[c] = step(acc[c], a, b);                                                       \
                IN_REGISTER(acc[c]);                                                               \
            }                                                                                      \
    }
// clang-format on

/* A register as the memory loops see it. */
#if defined(ZT_ISA_avx512)
typedef __m512i reg;
#define LOAD(p)      _mm512_load_si512(p)
#define STORE(p, x)  _mm512_store_si512(p, x)
#define STREAM(p, x) _mm512_stream_si512((void *)(p), x)
#elif defined(ZT_ISA_avx2)
typedef __m256i reg;
#define LOAD(p)      _mm256_load_si256(p)
#define STORE(p, x)  _mm256_store_si256(p, x)
#define STREAM(p, x) _mm256_stream_si256(p, x)
#else
typedef int64_t reg __attribute__((vector_size(16)));
#define LOAD(p)     (*(p))
#define STORE(p, x) (void)(*(p) = (x))
#if defined(__SSE2__)
#include <emmintrin.h>
#define STREAM(p, x) _mm_stream_si128((__m128i *)(p), (__m128i)(x))
#else
#define STREAM(p, x) STORE(p, x)
#endif
#endif

/* ---- arithmetic ------------------------------------------------------------------------------ */

#if defined(ZT_ISA_avx512)
#define FMA(acc, a, b) _mm512_fmadd_ps(a, b, acc)
PEAK_LOOP(run_f32, __m512, _mm512_setzero_ps(), FMA)
#define DPBUSD(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
PEAK_LOOP(run_int8, __m512i, _mm512_setzero_si512(), DPBUSD)

/* Operands of a type of its own, which an asm does not take. */
static void run_bf16(int64_t n)
{
    __m512 acc[CHAINS];
    __m512i a = _mm512_setzero_si512(), b = a;
    IN_REGISTER(a);
    IN_REGISTER(b);
    EACH_CHAIN acc[c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i++) EACH_CHAIN
        {
            acc[c] = _mm512_dpbf16_ps(acc[c], (__m512bh)a, (__m512bh)b);
            IN_REGISTER(acc[c]);
        }
}

/* Four sums of 16 by 16, of 64 products each. */
static void run_amx(int64_t n)
{
    static const amx_shapes whole = {
        .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .lines = {16, 16, 16, 16, 16, 16, 16, 16}};
    amx_begin(&whole);
    for (int64_t i = 0; i < n; i++)
        __asm__ volatile("tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
                         "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
    amx_end();
}

static const zt_cpu_peak peaks[] = {{ZT_ROOF_F32, "vfmadd231ps zmm", 32 * CHAINS, run_f32, false},
                                    {ZT_ROOF_BF16, "vdpbf16ps zmm", 64 * CHAINS, run_bf16, false},
                                    {ZT_ROOF_INT8, "vpdpbusd zmm", 128 * CHAINS, run_int8, false},
                                    {ZT_ROOF_INT8, "tdpbssd tmm", 4 * 2 * 16 * 16 * 64, run_amx, true},
                                    {0}};

#elif defined(ZT_ISA_avx2)
#define FMA(acc, a, b) _mm256_fmadd_ps(a, b, acc)
PEAK_LOOP(run_f32, __m256, _mm256_setzero_ps(), FMA)
/* 32 products: pairs to 16 bits, pairs of those to 32, added. The products are of `a` alone, so an
 * asm that may have changed it keeps them inside the loop. */
#define DOT8(acc, a, b)                                                                                                          \
    _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), b));                                                     \
    IN_REGISTER(a)
PEAK_LOOP(run_int8, __m256i, _mm256_setzero_si256(), DOT8)

static const zt_cpu_peak peaks[] = {{ZT_ROOF_F32, "vfmadd231ps ymm", 16 * CHAINS, run_f32, false},
                                    {ZT_ROOF_INT8, "vpmaddubsw+vpmaddwd+vpaddd ymm", 64 * CHAINS, run_int8, false},
                                    {0}};

#elif defined(ZT_ISA_neon)
#define FMA(acc, a, b) vfmaq_f32(acc, a, b)
PEAK_LOOP(run_f32, float32x4_t, vdupq_n_f32(0), FMA)
#if defined(ZT_ISA_dotprod)
#define DOT(acc, a, b) vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))
PEAK_LOOP(run_int8, int32x4_t, vdupq_n_s32(0), DOT)
enum { INT8_OPS = 32 };
#define INT8_HOW       "sdot v.4s"
#else
/* 16 products: pairs of 16 bits, of which pairs are added to 32. */
#define DOT(acc, a, b)                                                                                                           \
    vpadalq_s16(acc, vmlal_high_s8(vmull_s8(vget_low_s8(vreinterpretq_s8_s32(a)), vget_low_s8(vreinterpretq_s8_s32(b))),         \
                                   vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));                                           \
    IN_REGISTER(a)
PEAK_LOOP(run_int8, int32x4_t, vdupq_n_s32(0), DOT)
enum { INT8_OPS = 32 };
#define INT8_HOW "smull+smlal+sadalp v.4s"
#endif

static const zt_cpu_peak peaks[] = {
    {ZT_ROOF_F32, "fmla v.4s", 8 * CHAINS, run_f32, false}, {ZT_ROOF_INT8, INT8_HOW, INT8_OPS *CHAINS, run_int8, false}, {0}};

#else
typedef float four __attribute__((vector_size(16)));
/* The product is made anew each time: an asm may have changed `a`. */
#define MUL_ADD(acc, a, b)                                                                                                       \
    acc + a *b;                                                                                                                  \
    IN_REGISTER(a)
PEAK_LOOP(run_f32, four, ((four){0}), MUL_ADD)

static const zt_cpu_peak peaks[] = {{ZT_ROOF_F32, "multiply+add, 4 lanes", 8 * CHAINS, run_f32, false}, {0}};
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

enum { REGS = 8 };
#define EACH_REG UNROLLED_FOR (int k = 0; k < REGS; k++)

static uint64_t read_all(const void *from, size_t bytes)
{
    const reg *p = from;
    reg x;
    for (size_t i = 0; i < bytes / sizeof(reg); i += REGS) EACH_REG
        {
            x = LOAD(&p[i + (size_t)k]);
            IN_REGISTER(x);
        }
    return ((const uint64_t *)from)[bytes / sizeof(uint64_t) - 1];
}

static void copy_all(void *to, const void *from, size_t bytes)
{
    const reg *p = from;
    reg *q = to;
    for (size_t i = 0; i < bytes / sizeof(reg); i += REGS) EACH_REG STORE(&q[i + (size_t)k], LOAD(&p[i + (size_t)k]));
}

static void stream_all(void *to, const void *from, size_t bytes)
{
    const reg *p = from;
    reg *q = to;
    for (size_t i = 0; i < bytes / sizeof(reg); i += REGS) EACH_REG STREAM(&q[i + (size_t)k], LOAD(&p[i + (size_t)k]));
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

const zt_cpu_roof ZT_SYM(zt_cpu_roof) = {peaks, read_all, copy_all, stream_all};
