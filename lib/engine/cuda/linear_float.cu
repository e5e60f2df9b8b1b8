/* linear_float.cu - products with x as it is: weights of every type become f32, 16 rows by 32
 * columns a step of a warp, eight columns of two rows a lane: four from NEXT times lane % 4 on, and
 * four FAR behind their first.
 */
#include "lib/engine/cuda/linear_float.cuh"

enum { MOST = 8 }; /* tokens that a weight is unpacked for */

/* Four of x from column k of token t on, what is past K 0. */
FN void x_four(const zt_cu_linear_args &a, int64_t t, int64_t k, float v[4])
{
    int64_t at = t * a.K + k;
    if (a.wide_x && k < a.K) {
        if (a.x_type == ZT_CU_F32) {
            vec<float, 4> x = load_vec<4>(PTR(const float, a.x) + at);
            for (int j = 0; j < 4; j++) v[j] = x.v[j];
        } else {
            vec<uint16_t, 4> x = load_vec<4>(PTR(const uint16_t, a.x) + at);
            for (int j = 0; j < 4; j++)
                v[j] = a.x_type == ZT_CU_F16 ? get(f16{x.v[j]}) : get(bf16{x.v[j]});
        }
    } else {
        for (int j = 0; j < 4; j++) v[j] = k + j < a.K ? number_at(a.x, a.x_type, at + j) : 0;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Of packed types: codes times their scales. */
template <class T> struct from_packed {
    enum { STEPS = T::STEPS, NEXT = 4, FAR = 16 };
    packed_unit u;
    FN void read(const zt_cu_linear_args &a, const share &s, int64_t at, from_packed *self)
    {
        read_unit<T>(PTR(const uint32_t, weights_of(a, s)), PTR(const uint32_t, heads_of(a, s)),
                     PTR(const f16, halves_of(a, s)), s.tile * a.units + at, &self->u);
    }
    FN void get(const from_packed *self, int k, float w[2][8])
    {
        fragment f;
        T::get(&self->u, k, &f);
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 8; c++) {
                int code = (int8_t)byte_of(f.a[c / 4 * 2 + r], c % 4);
                w[r][c] = fmaf((float)code, c < 4 ? f.d0[r] : f.d1[r], f.m[r]);
            }
    }
};

/* Of f32, f16 and bf16 rows. */
template <class T> struct from_plain {
    enum { STEPS = 1, NEXT = 8, FAR = 4 };
    plain_unit<T> u;
    FN void read(const zt_cu_linear_args &a, const share &s, int64_t at, from_plain *self)
    {
        read_plain(plain_rows_of<T>(a, s), at, &self->u);
    }
    FN void get(const from_plain *self, int, float w[2][8]) { get_plain(self->u, w); }
};

/* Of any type, as its rows lie in a file. */
struct from_file {
    enum { STEPS = 1, NEXT = 4, FAR = 16 };
    float w[2][8];
    FN void read(const zt_cu_linear_args &a, const share &s, int64_t at, from_file *self)
    {
        for (int r = 0; r < 2; r++)
            for (int h = 0; h < 2; h++) {
                int64_t row = s.tile * 16 + lane() / 4 + 8 * r,
                        k = at * 32 + 16 * h + lane() % 4 * 4;
                bytes from = PTR(const uint8_t, weights_of(a, s)) + row * a.row_bytes;
                four_at(a.w_type, from, a.block, a.block_bytes, PTR(const uint16_t, a.grid), k,
                        row < s.p->M ? a.K : 0, &self->w[r][4 * h]);
            }
    }
    FN void get(const from_file *self, int, float v[2][8])
    {
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 8; c++) v[r][c] = self->w[r][c];
    }
};

/* ---- products -------------------------------------------------------------------------------- */

template <class W>
FN void slice_of(const zt_cu_linear_args &a, const share &s, int slice, float acc[MOST][2])
{
    int64_t end = (slice + 1) * a.units_slice;
    for (int64_t u = slice * a.units_slice; u < end && u < a.units; u++) {
        W from;
        W::read(a, s, u, &from);
        ROLLED /* or there are minutes to compile */
            for (int k = 0; k < W::STEPS; k++)
        {
            float w[2][8], x[8];
            int64_t column = (u * W::STEPS + k) * 32 + lane() % 4 * W::NEXT;
            W::get(&from, k, w);
            UNROLL
            for (int t = 0; t < MOST; t++) {
                if (t >= s.tokens) continue;
                x_four(a, s.token + t, column, x);
                x_four(a, s.token + t, column + W::FAR, x + 4);
                by_eight(w, x, acc[t]);
            }
        }
    }
}

template <class W> FN void by_floats(const zt_cu_linear_args &a, float *part)
{
    share s = share_of(a, MOST);
    float total[MOST][2] = {{0}};
    for (int k = 0; s.any && k < s.slices; k++) {
        float acc[MOST][2] = {{0}};
        slice_of<W>(a, s, s.slice + k, acc);
        for (int t = 0; t < MOST; t++)
            for (int r = 0; r < 2; r++) {
                float v = four_lanes(acc[t][r]);
                total[t][r] = a.split ? v : total[t][r] + v;
            }
    }
    UNROLL
    for (int t = 0; t < MOST; t++) UNROLL
    for (int r = 0; r < 2; r++) {
        int row = lane() / 4 + 8 * r;
        if (!s.any || t >= s.tokens || !tells_of(t)) continue;
        if (a.split)
            keep(part, s, s.tokens, t, row, total[t][r]);
        else
            finish(a, s.p, s.token + t, s.tile * 16 + row, total[t][r]);
    }
    barrier();
    if (a.split && s.any) finish_split(a, s, s.tokens, part);
}

#define PRODUCT(name, from)                                                                        \
    KERNEL_OF(name, zt_cu_linear_args, 32 * SLICES)                                                \
    {                                                                                              \
        DYNAMIC_SHARED(float, part);                                                               \
        by_floats<from>(a, part);                                                                  \
    }
PRODUCT(zt_linear_f32, from_plain<float>)
PRODUCT(zt_linear_f16, from_plain<f16>)
PRODUCT(zt_linear_bf16, from_plain<bf16>)
PRODUCT(zt_linear_file, from_file)
#define PACKED(type) PRODUCT(zt_packed_##type, from_packed<packed_##type>)
ZT_CU_PACKED_TYPES(PACKED)
