/* onnx_matmul.h - how the ops of golden/ops/onnx are spelled in zt:
 * products of matrices, einsum. */
#ifndef ZT_SPELL_ONNX_MATMUL_H
#define ZT_SPELL_ONNX_MATMUL_H

#include "tests/ops/spell/spell.h"

SPELL_FN int to_dtype(const call *node, int x, const char *dtype)
{
    zt_cast_attrs a = zt_cast_defaults();
    snprintf(a.to.s, sizeof a.to.s, "%s", dtype);
    return zt_program_cast(node->p, NULL, x, &a);
}

/* The dtype that output o shall have, in our words. */
SPELL_FN const char *dtype_wanted(const call *node, int o)
{
    const logical *l = logical_named(node->out_dtype[o]);
    return l ? l->zt : "?";
}

/* Products are rows of floats: integers go by way of f64, exact to 2^53. */
SPELL_FN int as_factor(const call *node, int i)
{
    return zt_dtype_is_float(node->type[i].dtype) ? node->in[i] : to_dtype(node, node->in[i], "f64");
}

SPELL_FN int as_wanted(const call *node, int y)
{
    return zt_dtype_is_float(node->type[0].dtype) ? y : to_dtype(node, y, dtype_wanted(node, 0));
}

/* ---- MatMul, Gemm ---------------------------------------------------------------------------- */

/* numpy's matmul of factors a and b of types ta and tb: a vector is one row, or one column. */
SPELL_FN int matmul_of(const call *node, int a, const zt_type *ta, int b, const zt_type *tb)
{
    const zt_matmul_attrs plain = {0, 0};
    int64_t dim[ZT_MAX_RANK];
    if (ta->rank == 1) a = reshaped(node, a, 2, (int64_t[]){1, ta->dim[0]});
    if (tb->rank == 1) b = reshaped(node, b, 2, (int64_t[]){tb->dim[0], 1});
    int y = zt_program_matmul(node->p, NULL, a, b, &plain);
    if (ta->rank > 1 && tb->rank > 1) return y;
    const zt_type *most = ta->rank > 1 ? ta : tb;
    int rank = 0;
    for (int d = 0; d < most->rank - 2; d++) dim[rank++] = most->dim[d];
    if (ta->rank > 1) dim[rank++] = ta->dim[ta->rank - 2];
    if (tb->rank > 1) dim[rank++] = tb->dim[tb->rank - 1];
    return reshaped(node, y, rank, dim);
}

SPELL_FN int build_matmul(const call *node)
{
    return as_wanted(node, matmul_of(node, as_factor(node, 0), &node->type[0], as_factor(node, 1), &node->type[1]));
}

SPELL_FN int scaled(const call *node, int x, double by)
{
    return by == 1 ? x : zt_program_scale(node->p, NULL, x, &(zt_scale_attrs){by});
}

SPELL_FN int build_gemm(const call *node)
{
    const zt_matmul_attrs at = {int_or(node, "transA", 0) != 0, int_or(node, "transB", 0) != 0};
    int y = zt_program_matmul(node->p, NULL, as_factor(node, 0), as_factor(node, 1), &at);
    y = scaled(node, y, number_or(node, "alpha", 1));
    if (given(node, 2)) y = zt_program_add(node->p, NULL, y, scaled(node, as_factor(node, 2), number_or(node, "beta", 1)));
    return as_wanted(node, y);
}

/* ---- products of quantized matrices ---------------------------------------------------------- */

/* Input i, a scale or zero point of one, of each row of a (rows) or each column of b, as f64 that
 * broadcasts with the matrix. */
SPELL_FN int beside(const call *node, int i, bool rows)
{
    const zt_type *t = &node->type[i];
    int x = to_dtype(node, node->in[i], "f64");
    return rows && t->rank == 1 && t->dim[0] > 1 ? reshaped(node, x, 2, (int64_t[]){t->dim[0], 1}) : x;
}

/* (input i - zero point) scale, in f64; zero and scale are inputs that may be absent (-1). */
SPELL_FN int dequantized(const call *node, int i, int scale, int zero, bool rows)
{
    int x = to_dtype(node, node->in[i], "f64");
    if (zero >= 0 && given(node, zero)) x = zt_program_sub(node->p, NULL, x, beside(node, zero, rows));
    if (scale >= 0) x = zt_program_mul(node->p, NULL, x, beside(node, scale, rows));
    return x;
}

SPELL_FN int build_matmul_integer(const call *node)
{
    int y =
        matmul_of(node, dequantized(node, 0, -1, 2, true), &node->type[0], dequantized(node, 1, -1, 3, false), &node->type[1]);
    return to_dtype(node, y, "i32");
}

/* y / scale + zero in y's dtype: integers to the nearest, ties to
 * even, what is beyond at the end. */
SPELL_FN int build_qlinear_matmul(const call *node)
{
    int y = matmul_of(node, dequantized(node, 0, 1, 2, true), &node->type[0], dequantized(node, 3, 4, 5, false), &node->type[3]);
    y = zt_program_div(node->p, NULL, y, beside(node, 6, true));
    if (!zt_dtype_is_float(node->type[7].dtype)) y = zt_program_round(node->p, NULL, y);
    y = zt_program_add(node->p, NULL, y, beside(node, 7, true));
    if (node->type[7].dtype == ZT_I8) y = zt_program_clamp(node->p, NULL, y, &(zt_clamp_attrs){-128, 127});
    if (node->type[7].dtype == ZT_U8) y = zt_program_clamp(node->p, NULL, y, &(zt_clamp_attrs){0, 255});
    return to_dtype(node, y, dtype_wanted(node, 0));
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

/* A value with a label a dimension: a letter, or for what "..." stands for ELLIPSIS + the place
 * from the right. Dimensions of 1 are left out (they broadcast) and come back at the end. */
enum { ELLIPSIS = 256, LABELS = 512, MAX_TERMS = MAX_ARGS };

typedef struct term {
    int v, n;
    int label[2 * ZT_MAX_RANK];
} term;

typedef struct sums {
    const call *node;
    int64_t size[LABELS];
    term in[MAX_TERMS], out; /* out.v is not used */
    int n_in;
} sums;

SPELL_FN int place_of(const term *t, int label)
{
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == label) return i;
    return -1;
}

SPELL_FN int term_reshaped(const sums *s, const term *t, int v)
{
    int64_t dim[ZT_MAX_RANK];
    for (int i = 0; i < t->n; i++) dim[i] = s->size[t->label[i]];
    return reshaped(s->node, v, t->n, dim);
}

SPELL_FN int turned(const sums *totals, int v, int count, const int *from)
{
    zt_transpose_attrs a = {.axes = {.n = count}};
    bool same = true;
    for (int i = 0; i < count; i++) {
        a.axes.v[i] = from[i];
        same = same && from[i] == i;
    }
    return same ? v : zt_program_transpose(totals->node->p, NULL, v, &a);
}

/* The labels of one side of the equation; "..." is `dots` dimensions. The next character. */
SPELL_FN const char *read_labels(const char *at, int dots, term *t)
{
    for (t->n = 0; *at && *at != ',' && *at != '-' && t->n < 2 * ZT_MAX_RANK; at++) {
        if (*at == ' ') continue;
        if (*at != '.') t->label[t->n++] = *at;
        if (*at == '.') at += 2;
        for (int d = dots; *at == '.' && d > 0; d--) t->label[t->n++] = ELLIPSIS + d - 1;
    }
    return at;
}

/* Entries i,i of dimensions p < q, both of size count: brought to the front, one of count count, gathered. */
SPELL_FN void take_diagonal(const sums *totals, term *t, int p, int q)
{
    int from[ZT_MAX_RANK] = {p, q}, k = 2, label = t->label[p];
    int64_t count = totals->size[label], rest = 1;
    for (int i = 0; i < t->n; i++)
        if (i != p && i != q) {
            rest *= totals->size[t->label[i]];
            from[k++] = i;
        }
    int32_t *at = malloc((size_t)(count * rest) * sizeof *at + 1);
    for (int64_t i = 0; i < count * rest; i++) at[i] = (int32_t)(i / rest * (count + 1));
    int v = reshaped(totals->node, turned(totals, t->v, t->n, from), 2, (int64_t[]){count * count, rest});
    zt_gather_elements_attrs a = zt_gather_elements_defaults();
    v = zt_program_gather_elements(totals->node->p, NULL, v, constant(totals->node, ZT_I32, 2, (int64_t[]){count, rest}, at), &a);
    free(at);
    term old = *t;
    for (int i = 2; i < t->n; i++) t->label[i - 1] = old.label[from[i]];
    t->label[0] = label;
    t->n--;
    t->v = term_reshaped(totals, t, v);
}

SPELL_FN void take_diagonals(const sums *totals, term *t)
{
    for (int q = 0; q < t->n; q++) {
        int p = place_of(t, t->label[q]);
        if (p == q) continue;
        take_diagonal(totals, t, p, q);
        q = -1;
    }
}

/* Is a label wanted by the output, or by an input from `first` on? */
SPELL_FN bool wanted(const sums *s, int label, int first)
{
    bool is = place_of(&s->out, label) >= 0;
    for (int i = first; i < s->n_in; i++) is = is || place_of(&s->in[i], label) >= 0;
    return is;
}

/* Sums over what neither `other` (may be NULL) nor anybody later wants. */
SPELL_FN void sum_out(const sums *totals, term *t, const term *other, int later)
{
    zt_sum_attrs a = {.keepdims = 0};
    term left = {.v = t->v};
    for (int i = 0; i < t->n; i++) {
        if ((other && place_of(other, t->label[i]) >= 0) || wanted(totals, t->label[i], later))
            left.label[left.n++] = t->label[i];
        else
            a.axes.v[a.axes.n++] = i;
    }
    if (a.axes.n) left.v = zt_program_sum(totals->node->p, NULL, t->v, &a);
    *t = left;
}

/* t as [shared, own, summed], or with `right` [shared, summed, own], each a product of dimensions;
 * shared and own labels are added to y. */
SPELL_FN int as_stack(const sums *totals, const term *t, const term *other, int later, bool right, term *y)
{
    int from[ZT_MAX_RANK], count = 0;
    int64_t size[3] = {1, 1, 1};
    for (int part = 0; part < 3; part++) {
        int want = right && part ? 3 - part : part;
        for (int i = 0; i < t->n; i++) {
            bool both = place_of(other, t->label[i]) >= 0, kept = wanted(totals, t->label[i], later);
            if ((both ? kept ? 0 : 2 : 1) != want) continue;
            size[part] *= totals->size[t->label[i]];
            from[count++] = i;
            if (want == 1 || (want == 0 && !right)) y->label[y->n++] = t->label[i];
        }
    }
    return reshaped(totals->node, turned(totals, t->v, t->n, from), 3, size);
}

/* Shared dimensions must come in one order on both sides: b's are put into that of a. */
SPELL_FN void align(const sums *totals, const term *a, term *b)
{
    int from[ZT_MAX_RANK], count = 0;
    term old = *b;
    for (int i = 0; i < a->n; i++) {
        int at = place_of(&old, a->label[i]);
        if (at >= 0) from[count++] = at;
    }
    for (int i = 0; i < old.n; i++)
        if (place_of(a, old.label[i]) < 0) from[count++] = i;
    for (int i = 0; i < count; i++) b->label[i] = old.label[from[i]];
    b->v = turned(totals, old.v, count, from);
}

SPELL_FN term product(const sums *totals, term a, term b, int later)
{
    term y = {.n = 0};
    sum_out(totals, &a, &b, later);
    sum_out(totals, &b, &a, later);
    align(totals, &a, &b);
    int left = as_stack(totals, &a, &b, later, false, &y), right = as_stack(totals, &b, &a, later, true, &y);
    int v = zt_program_matmul(totals->node->p, NULL, left, right, &(zt_matmul_attrs){0, 0});
    y.v = term_reshaped(totals, &y, v);
    return y;
}

/* The operand's labels, dimensions of 1 dropped. */
SPELL_FN const char *read_term(sums *totals, int i, const char *at, int *most_dots)
{
    term all, *t = &totals->in[i];
    const zt_type *type = &totals->node->type[i];
    read_labels(at, 0, &all);
    int dots = type->rank - all.n;
    if (dots > *most_dots) *most_dots = dots;
    at = read_labels(at, dots, &all);
    t->n = 0;
    for (int d = 0; d < type->rank && d < all.n; d++) {
        if (type->dim[d] == 1) continue;
        totals->size[all.label[d]] = type->dim[d];
        t->label[t->n++] = all.label[d];
    }
    return at;
}

/* Without "->": first the dots, then the letters that stand once, in order. */
SPELL_FN void implied(const char *equation, int dots, term *out)
{
    for (int d = dots; d > 0; d--) out->label[out->n++] = ELLIPSIS + d - 1;
    for (int l = 'A'; l <= 'z'; l++) {
        const char *first = strchr(equation, l);
        if (first && !strchr(first + 1, l)) out->label[out->n++] = l;
    }
}

SPELL_FN int build_einsum(const call *node)
{
    sums s = {.node = node, .n_in = node->n_in};
    const char *equation = word_or(node, "equation", ""), *at = equation;
    int dots = 0;
    int64_t dim[ZT_MAX_RANK];
    for (int l = 0; l < LABELS; l++) s.size[l] = 1;
    for (int i = 0; i < node->n_in; i++) {
        at = read_term(&s, i, at, &dots);
        if (*at == ',') at++;
    }
    if (*at == '-')
        read_labels(at + 2, dots, &s.out);
    else
        implied(equation, dots, &s.out);
    for (int i = 0; i < node->n_in; i++) {
        s.in[i].v = term_reshaped(&s, &s.in[i], as_factor(node, i));
        take_diagonals(&s, &s.in[i]);
    }
    term y = s.in[0];
    for (int i = 1; i < node->n_in; i++) y = product(&s, y, s.in[i], i + 1);
    sum_out(&s, &y, NULL, node->n_in);
    int from[ZT_MAX_RANK], count = 0;
    for (int i = 0; i < s.out.n; i++) {
        if (place_of(&y, s.out.label[i]) >= 0) from[count++] = place_of(&y, s.out.label[i]);
        dim[i] = s.size[s.out.label[i]];
    }
    return as_wanted(node, reshaped(node, turned(&s, y.v, count, from), s.out.n, dim));
}

static const spelling onnx_matmul_ops[] = {
    {"MatMul", .build = build_matmul},
    {"Gemm", .build = build_gemm},
    {"MatMulInteger", .build = build_matmul_integer},
    {"QLinearMatMul", .build = build_qlinear_matmul},
    {"Einsum", .build = build_einsum},
};

#endif
