/* args_state.h - what the kernels of recurrences whose states are in slots are called with. */
#ifndef ZT_CU_ARGS_STATE_H
#define ZT_CU_ARGS_STATE_H

#include "lib/engine/cuda/args.h"

/* Where rows begin, and where their states go: zt_state_start of lib/ops/ops.h. */
typedef struct zt_cu_state_rows {
    zt_cu_ptr from, to; /* i32[n] */
    zt_cu_ptr trouble;
    int64_t n, slots;
} zt_cu_state_rows;

typedef struct zt_cu_causal_conv_args {
    zt_cu_state_rows rows;
    zt_cu_ptr state;  /* f32[slots,K-1,C] */
    zt_cu_ptr x, w;   /* f32[n,C], f32[C,K] */
    zt_cu_ptr b, y;   /* f32[C], f32[n,C]; 0: absent, not wanted */
    zt_cu_ptr window; /* f32[K,C]: scratch */
    int64_t C, K;
    int32_t silu, unused;
} zt_cu_causal_conv_args;

typedef struct zt_cu_delta_rule_args {
    zt_cu_state_rows rows;
    zt_cu_ptr state;            /* f32[slots,heads,D,E] */
    zt_cu_ptr q, k, v, g, beta; /* f32[n,key_heads D] twice, f32[n,heads E], f32[n,heads] twice */
    zt_cu_ptr y;                /* f32[n,heads E]; 0: not wanted */
    zt_cu_ptr work;             /* f32[heads,D,E]: scratch */
    zt_cu_ptr factors;          /* f32[n,key_heads,2]: what k and q are multiplied by */
    int64_t key_heads, heads, D, E;
    float eps, scale;
    int32_t tiled, unused; /* head h reads key head h % key_heads, not h / (heads / key_heads) */
} zt_cu_delta_rule_args;

typedef struct zt_cu_selective_scan_args {
    zt_cu_state_rows rows;
    zt_cu_ptr state;   /* f32[slots,heads channels,N] */
    zt_cu_ptr x, dt;   /* f32[n,heads channels], f32[n,heads] */
    zt_cu_ptr a, b, c; /* f32[heads,N] or f32[heads,1]; f32[n,groups N] twice */
    zt_cu_ptr d, y;    /* f32[heads], f32[n,heads channels]; 0: absent, not wanted */
    zt_cu_ptr work;    /* f32[heads channels,N]: scratch */
    int64_t heads, channels, N, groups;
    int32_t wide, unused; /* a has a column for each number */
} zt_cu_selective_scan_args;

typedef struct zt_cu_wkv7_args {
    zt_cu_state_rows rows;
    zt_cu_ptr state;            /* f32[slots,heads,D,E] */
    zt_cu_ptr q, w, k, v, a, b; /* f32[n,heads D], v f32[n,heads E] */
    zt_cu_ptr y;                /* f32[n,heads E]; 0: not wanted */
    zt_cu_ptr work;             /* f32[heads,D,E]: scratch */
    int64_t heads, D, E;
} zt_cu_wkv7_args;

#endif
