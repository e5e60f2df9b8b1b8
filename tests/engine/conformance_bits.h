/* conformance_bits.h - for conformance.c: the bits of every op's cases as lines, to be compared between machines.
 *
 * A line is the op, the dtype of its floats, a hash of its inputs and a hash of its outputs. NaN is one NaN: which of them an operation gives differs
 * between processors.
 */
#ifndef ZT_TEST_CONFORMANCE_BITS_H
#define ZT_TEST_CONFORMANCE_BITS_H

#include "lib/engine/contract_bits.h"
#include "tests/engine/conformance_trial.h"

#include <xxhash.h>

/* Adds the numbers of a value, which NaNs among are written over. */
static void add_bits(XXH3_state_t *hash, const zt_type *type, void *data)
{
    const int64_t count = zt_type_count(type);
    uint64_t *f64 = data;
    uint32_t *f32 = data;
    uint16_t *half = data;
    for (int64_t i = 0; i < count; i++) {
        if (type->dtype == ZT_F64 && f64[i] << 1 > UINT64_C(0x7ff) << 53) f64[i] = UINT64_C(0x7ff8) << 48;
        if (type->dtype == ZT_F32 && f32[i] << 1 > 0xffu << 24) f32[i] = 0x7fc00000;
        if (type->dtype == ZT_F16 && (half[i] & 0x7fff) > 0x7c00) half[i] = 0x7e00;
        if (type->dtype == ZT_BF16 && (half[i] & 0x7fff) > 0x7f80) half[i] = 0x7fc0;
    }
    XXH3_64bits_update(hash, data, zt_type_bytes(type));
}

/* Adds all cases of an op in this dtype. */
static bool add_cases(zt_ctx *ctx, zt_op op, zt_dtype as, XXH3_state_t *inputs, XXH3_state_t *outputs)
{
    const zt_opinfo *info = zt_op_info(op);
    bool good = true;
    trial t;
    for (int i = 0; trial_open(&t, ctx, op, i, as); i++, trial_close(&t)) {
        if (t.skip) continue;
        if (zt_op_infer(ctx, op, t.o.attrs, t.o.in, t.o.out))
            good = fails(&t, "infer", "is refused");
        else if (oneop_has(setups[0].engine, &t.o)) {
            for (int k = 0; k < info->n_in; k++)
                if (t.o.in[k]) XXH3_64bits_update(inputs, t.data[k], zt_type_bytes(t.o.in[k]));
            good = run_into(&t, &setups[0], t.want) && good;
            for (int k = 0; k < info->n_out && good; k++) add_bits(outputs, &t.o.out[k], t.want[k]);
        }
    }
    return good;
}

/* conformance bits [ISA [OP...]] */
static int print_bits(zt_ctx *ctx, const char *isa_name, char **ops)
{
    static const zt_dtype dtypes[] = {ZT_F32, ZT_F64, ZT_F16, ZT_BF16};
    zt_isa isa = zt_isa_best();
    if (isa_name && (!zt_isa_parse(isa_name, &isa) || !zt_isa_has(isa))) {
        fprintf(stderr, "conformance: this processor has no '%s'\n", isa_name);
        return 69;
    }
    add_setup(ctx, "cpu", isa, 1, -1, false);
    XXH3_state_t *inputs = XXH3_createState(), *outputs = XXH3_createState();
    bool good = inputs && outputs;
    for (int op = 0; op < ZT_OP_COUNT && good; op++) {
        const char *name = zt_op_info((zt_op)op)->name;
        bool asked = !ops || !*ops;
        for (char **o = ops; o && *o; o++) asked |= !strcmp(*o, name);
        if (!asked) continue;
        for (int d = 0; d < 4; d++) {
            XXH3_64bits_reset(inputs);
            XXH3_64bits_reset(outputs);
            good = add_cases(ctx, (zt_op)op, dtypes[d], inputs, outputs) && good;
            printf("%s %s %016llx %016llx\n", name, zt_dtype_get(dtypes[d])->name, (unsigned long long)XXH3_64bits_digest(inputs),
                   (unsigned long long)XXH3_64bits_digest(outputs));
        }
    }
    XXH3_freeState(inputs);
    XXH3_freeState(outputs);
    zt_engine_close(setups[0].engine);
    return good ? 0 : 1;
}

/* ---- the contract ------------------------------------------------------------------------------ */

typedef struct contract_count {
    int cases, promised, same, broken; /* broken: promised, but not the same */
} contract_count;

static uint64_t hash_outputs(const trial *tried, void *const *result)
{
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    for (int k = 0; k < zt_op_info(tried->o.op)->n_out; k++) add_bits(hash, &tried->o.out[k], result[k]);
    const uint64_t digest = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return digest;
}

/* All cases of an op in this dtype on engine 1, beside the cpu, which is engine 0. False: one does not run. */
static bool count_contract(zt_ctx *ctx, zt_op op, zt_dtype as, contract_count *count)
{
    trial t;
    bool good = true;
    for (int i = 0; trial_open(&t, ctx, op, i, as); i++, trial_close(&t)) {
        if (t.skip || zt_op_infer(ctx, op, t.o.attrs, t.o.in, t.o.out)) continue;
        if (!oneop_has(setups[0].engine, &t.o) || !oneop_has(setups[1].engine, &t.o)) continue;
        const bool promised = zt_engine_has_contract_bits(setups[1].engine, op, t.o.attrs, t.o.in, t.o.out);
        if (!run_into(&t, &setups[0], t.got[0]) || !run_into(&t, &setups[1], t.got[1])) {
            good = false;
            continue;
        }
        const bool same = hash_outputs(&t, t.got[0]) == hash_outputs(&t, t.got[1]);
        count->cases++;
        count->promised += promised;
        count->same += same;
        count->broken += promised && !same;
        if (promised && !same) fails(&t, setups[1].name, "promises the bits of the arithmetic, and has others");
    }
    return good;
}

/* conformance contract ENGINE [OP...]: how many cases of an op an engine promises the cpu's bits for, and has them. */
static int print_contract(zt_ctx *ctx, const char *engine, char **ops)
{
    static const zt_dtype dtypes[] = {ZT_F32, ZT_F64, ZT_F16, ZT_BF16};
    strict_setups = true;
    add_setup(ctx, "cpu", zt_isa_best(), 1, -1, false);
    add_setup(ctx, engine, zt_isa_best(), 1, -1, false);
    const bool opened = !tap_failed;
    for (int op = 0; op < ZT_OP_COUNT && opened; op++) {
        const char *name = zt_op_info((zt_op)op)->name;
        contract_count all = {0}, f32 = {0};
        bool asked = !*ops, good = true;
        for (char **o = ops; *o; o++) asked |= !strcmp(*o, name);
        for (int d = 0; d < 4 && asked; d++) {
            good = count_contract(ctx, (zt_op)op, dtypes[d], &all) && good;
            if (d == 0) f32 = all;
        }
        if (!all.cases) continue;
        diag("%s: %d cases, %d promised, %d the same (of f32 and weights %d of %d)", name, all.cases, all.promised, all.same,
             f32.same, f32.cases);
        ok(good && !all.broken, "%s has the bits that it promises", name);
    }
    for (int s = 0; s < n_setups; s++) zt_engine_close(setups[s].engine);
    return tap_done();
}

#endif
