/* signatures.c - owns signatures as files: checkpoints whose tensors are signatures, with what they
 * are of in the metadata, and JSON.
 *
 * In a checkpoint tensors are f16, brought to a mean square of 1 so that f16 is fine enough, or
 * f32, as signatures are, of networks and by Loom's rule. "zt.dna.rule" is "field" or "loom",
 * "zt.dna.net" 1 for a network; arrays of texts, one for each tensor: "zt.dna.types",
 * "zt.dna.dtypes", "zt.dna.places" ("z,y,x,l"), "zt.dna.lengths". */
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES, DTYPES, PLACES, LENGTHS, TEXTS };

static const char *const key[TEXTS] = {"zt.dna.types", "zt.dna.dtypes", "zt.dna.places",
                                       "zt.dna.lengths"};
#define KEY_RULE "zt.dna.rule"
#define KEY_NET  "zt.dna.net"

/* ---- reading a checkpoint -------------------------------------------------------------------- */

static bool read_place(const char *text, int64_t place[4])
{
    for (int k = 0; k < 4; k++) {
        char *end;
        place[k] = strtoll(text, &end, 10);
        if (end == text || *end != (k < 3 ? ',' : 0)) return false;
        text = end + 1;
    }
    return true;
}

static zt_status take_text(zt_dna *d, int64_t i, int which, const char *text)
{
    zt_dna_layer *l = &d->layer[i];
    bool good = true;
    if (which == TYPES) l->type = text;
    if (which == DTYPES) l->dtype = text;
    if (which == PLACES) good = read_place(text, l->place);
    if (which == LENGTHS) good = zt_parse_double(text, &d->length[i]) && d->length[i] >= 0;
    return good ? ZT_OK
                : zt_fail(d->ctx, ZT_EDATA, "%s: '%s' of '%s' is no such thing", zt_dna_name(d),
                          key[which], l->name);
}

static zt_status take_texts(zt_dna *d, int which)
{
    zt_meta *m = zt_checkpoint_meta(d->from);
    int64_t at = zt_meta_find(m, key[which]);
    const zt_meta_item *item = at >= 0 ? zt_meta_get(m, at) : NULL;
    zt_gguf_kind kind;
    uint64_t n = 0;
    size_t next = 0;
    zt_status s = ZT_OK;
    if (!item || !zt_meta_array(item, &kind, &n) || n != (uint64_t)d->n)
        return zt_fail(d->ctx, ZT_EDATA, "%s: '%s' is not of its %" PRId64 " tensors",
                       zt_dna_name(d), key[which], d->n);
    for (int64_t i = 0; i < d->n && s == ZT_OK; i++) {
        zt_bytes b = zt_meta_next_str(item, &next);
        char *text = b.data ? zt_arena_strndup(d->texts, b.data, b.n) : NULL;
        if (!b.data)
            return zt_fail(d->ctx, ZT_EDATA, "%s: '%s' holds no texts", zt_dna_name(d), key[which]);
        s = text ? take_text(d, i, which, text) : ZT_ENOMEM;
    }
    return s;
}

bool zt_dna_holds_signatures(zt_dna *d)
{
    return zt_meta_find(zt_checkpoint_meta(d->from), KEY_RULE) >= 0;
}

static zt_status take_rule(zt_dna *d, const char *text, size_t n)
{
    bool loom = n == 4 && memcmp(text, "loom", 4) == 0;
    d->rule = loom ? ZT_RULE_LOOM : ZT_RULE_FIELD;
    return loom || (n == 5 && memcmp(text, "field", 5) == 0)
               ? ZT_OK
               : zt_fail(d->ctx, ZT_EDATA, "%s: its rule is neither field nor loom",
                         zt_dna_name(d));
}

zt_status zt_dna_take_signatures(zt_dna *d)
{
    zt_meta *m = zt_checkpoint_meta(d->from);
    zt_bytes rule = zt_meta_text(zt_meta_get(m, zt_meta_find(m, KEY_RULE)));
    d->of_net = zt_meta_find(m, KEY_NET) >= 0;
    d->length = zt_calloc(d->ctx, (size_t)d->n + 1, sizeof *d->length);
    zt_status s = d->length ? take_rule(d, rule.data ? rule.data : "", rule.n) : ZT_ENOMEM;
    for (int which = 0; which < TEXTS && s == ZT_OK; which++) s = take_texts(d, which);
    for (int64_t i = 0; i < d->n && s == ZT_OK; i++)
        if (d->layer[i].shape.dtype != ZT_F16 && d->layer[i].shape.dtype != ZT_F32)
            s = zt_fail(d->ctx, ZT_EDATA, "%s: '%s' is neither f16 nor f32", zt_dna_name(d),
                        d->layer[i].name);
    return s;
}

/* ---- reading JSON ---------------------------------------------------------------------------- */

typedef struct reading {
    zt_dna *d;
    int64_t room;
} reading;

static zt_status bad_layer(const reading *r, int64_t i, const char *what)
{
    return zt_fail(r->d->ctx, ZT_EDATA, "%s: layer %" PRId64 " has no %s", zt_dna_name(r->d), i,
                   what);
}

static zt_status make_room(reading *r)
{
    zt_dna *d = r->d;
    if (d->n < r->room) return ZT_OK;
    int64_t room = r->room ? 2 * r->room : 64;
    size_t n = (size_t)room;
    zt_dna_layer *layer = zt_realloc(d->ctx, d->layer, n * sizeof *layer);
    if (layer) d->layer = layer;
    double *length = layer ? zt_realloc(d->ctx, d->length, n * sizeof *length) : NULL;
    if (length) d->length = length;
    float **given = length ? zt_realloc(d->ctx, d->given, n * sizeof *given) : NULL;
    if (!given) return ZT_ENOMEM;
    d->given = given;
    r->room = room;
    return ZT_OK;
}

static zt_status copy_text(zt_dna *d, json_t *layer, const char *name, const char **out)
{
    json_t *t = json_object_get(layer, name);
    if (!json_is_string(t))
        return zt_fail(d->ctx, ZT_EDATA, "%s: a layer has no %s", zt_dna_name(d), name);
    *out = zt_arena_strndup(d->texts, json_string_value(t), json_string_length(t));
    return *out ? ZT_OK : ZT_ENOMEM;
}

static zt_status copy_shape(const reading *r, json_t *layer, int64_t i, zt_dna_layer *l)
{
    json_t *shape = json_object_get(layer, "shape");
    size_t rank = json_array_size(shape);
    int64_t n = 1;
    if (!json_is_array(shape) || rank > ZT_MAX_RANK) return bad_layer(r, i, "shape");
    l->shape = (zt_type){.dtype = ZT_F32, .rank = (int)rank};
    for (size_t k = 0; k < rank; k++) {
        l->shape.dim[k] = json_integer_value(json_array_get(shape, k));
        if (!zt_mul_i64(n, l->shape.dim[k], &n)) return bad_layer(r, i, "shape");
    }
    l->n = n;
    return ZT_OK;
}

static zt_status copy_weights(const reading *r, json_t *layer, int64_t i)
{
    zt_dna *d = r->d;
    json_t *w = json_object_get(layer, "weights"), *x;
    size_t k;
    if (!json_is_array(w) || (int64_t)json_array_size(w) != d->layer[i].n)
        return bad_layer(r, i, "weights, as many as its shape says");
    d->given[i] = zt_alloc_array(d->ctx, (size_t)d->layer[i].n + 1, sizeof(float));
    if (!d->given[i]) return ZT_ENOMEM;
    json_array_foreach(w, k, x) d->given[i][k] =
        json_is_number(x) ? (float)json_number_value(x) : NAN;
    return ZT_OK;
}

static zt_status take_layer(reading *r, json_t *layer, int64_t i)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    zt_dna *d = r->d;
    json_t *length = json_object_get(layer, "length");
    zt_dna_layer *l = &d->layer[i];
    d->given[i] = NULL;
    *l = (zt_dna_layer){.n = 0};
    d->n = i + 1;
    d->length[i] = json_is_number(length) ? json_number_value(length) : NAN;
    for (int k = 0; k < 4; k++) l->place[k] = json_integer_value(json_object_get(layer, axis[k]));
    if (d->length[i] < 0) return bad_layer(r, i, "length, which is not negative");
    zt_status s = copy_text(d, layer, "name", &l->name);
    if (s == ZT_OK) s = copy_text(d, layer, "type", &l->type);
    if (s == ZT_OK) s = copy_text(d, layer, "dtype", &l->dtype);
    if (s == ZT_OK) s = copy_shape(r, layer, i, l);
    return s == ZT_OK ? copy_weights(r, layer, i) : s;
}

static zt_status next_layer(void *user, int64_t i, const char *text, size_t n)
{
    reading *r = user;
    zt_status s = make_room(r);
    json_t *layer = s == ZT_OK ? zt_json_load(r->d->ctx, zt_dna_name(r->d), text, n) : NULL;
    if (!layer) return s == ZT_OK ? zt_ctx_status(r->d->ctx) : s;
    s = take_layer(r, layer, i);
    json_decref(layer);
    return s;
}

static zt_status next_member(void *user, const char *name, const char *text, size_t n)
{
    reading *r = user;
    if (strcmp(name, "layers") == 0 && r->d->n == 0)
        return zt_json_items(r->d->ctx, zt_dna_name(r->d), text, n, next_layer, r);
    if (strcmp(name, "rule") == 0 && n >= 2) return take_rule(r->d, text + 1, n - 2);
    if (strcmp(name, "net") == 0) r->d->of_net = n == 4 && memcmp(text, "true", 4) == 0;
    return ZT_OK;
}

zt_status zt_dna_parse(zt_dna *d, const char *text, size_t n)
{
    reading r = {.d = d};
    zt_status s = make_room(&r);
    return s == ZT_OK ? zt_json_members(d->ctx, zt_dna_name(d), text, n, next_member, &r) : s;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writing {
    zt_dna *d;
    zt_entry *entry;
    double *length;
    char **text[TEXTS];
    int64_t n;
    int64_t *layer; /* of each entry */
    zt_arena *keep;
    zt_dtype dtype;
} writing;

static zt_status list_layer(writing *w, int64_t i)
{
    const zt_dna_layer *l = &w->d->layer[i];
    char place[96], length[40];
    zt_entry *e = &w->entry[w->n];
    *e = (zt_entry){.name = l->name, .dtype = zt_dtype_get(w->dtype)->name, .type = l->shape};
    e->type.dtype = w->dtype;
    e->bytes = (uint64_t)l->n * (uint64_t)zt_dtype_get(w->dtype)->block_bytes;
    snprintf(place, sizeof place, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, l->place[0],
             l->place[1], l->place[2], l->place[3]);
    snprintf(length, sizeof length, "%.17g", w->length[i]);
    const char *texts[TEXTS] = {l->type, l->dtype, place, length};
    for (int k = 0; k < TEXTS; k++) {
        w->text[k][w->n] = zt_arena_strndup(w->keep, texts[k], strlen(texts[k]));
        if (!w->text[k][w->n]) return ZT_ENOMEM;
    }
    w->layer[w->n++] = i;
    return ZT_OK;
}

/* The signature of layer i at x, and its length. */
static zt_status sign(writing *w, int64_t i, float **x)
{
    *x = zt_alloc_array(w->d->ctx, (size_t)w->d->layer[i].n + 1, sizeof **x);
    return *x ? zt_dna_sign(w->d, i, *x, &w->length[i]) : ZT_ENOMEM;
}

/* Lengths come before the data: a first look at all layers. */
static zt_status list_all(writing *w)
{
    zt_dna *d = w->d;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < d->n && s == ZT_OK; i++) {
        float *x = NULL;
        if (d->layer[i].n == 0) continue; /* nothing that zt can read */
        s = sign(w, i, &x);
        if (s == ZT_OK) s = list_layer(w, i);
        zt_free(d->ctx, x);
    }
    return s;
}

static zt_status put_texts(const writing *w, zt_meta *m)
{
    const char *rule = w->d->rule == ZT_RULE_LOOM ? "loom" : "field";
    zt_bytes *b = zt_alloc_array(w->d->ctx, (size_t)w->n + 1, sizeof *b);
    zt_status s = b ? zt_meta_put_str(m, KEY_RULE, rule, strlen(rule)) : ZT_ENOMEM;
    if (s == ZT_OK && zt_dna_is_net(w->d)) s = zt_meta_put_u32(m, KEY_NET, 1);
    for (int k = 0; k < TEXTS && s == ZT_OK; k++) {
        for (int64_t i = 0; i < w->n; i++)
            b[i] = (zt_bytes){.data = w->text[k][i], .n = strlen(w->text[k][i])};
        s = zt_meta_put_strs(m, key[k], b, w->n);
    }
    zt_free(w->d->ctx, b);
    return s;
}

static zt_status put_all(writing *w, zt_writer *out)
{
    zt_status s = ZT_OK;
    for (int64_t k = 0; k < w->n && s == ZT_OK; k++) {
        int64_t i = w->layer[k], n = w->d->layer[i].n;
        float *x = NULL, by = (float)sqrt((double)n);
        s = sign(w, i, &x);
        for (int64_t j = 0; j < n && s == ZT_OK && w->dtype == ZT_F16; j++) {
            uint16_t h = zt_f32_to_f16(x[j] * by);
            memcpy((char *)x + 2 * j, &h, sizeof h); /* behind what is still to be read */
        }
        if (s == ZT_OK) s = zt_writer_put(out, x, (size_t)w->entry[k].bytes);
        zt_free(w->d->ctx, x);
    }
    return s == ZT_OK ? zt_writer_commit(out) : s;
}

static zt_status write_all(writing *w, const char *path, const zt_checkpoint_opts *o)
{
    zt_ctx *ctx = w->d->ctx;
    zt_meta *m = zt_meta_new(ctx);
    zt_status s = m ? list_all(w) : ZT_ENOMEM;
    if (s == ZT_OK) s = put_texts(w, m);
    zt_writer *out = s == ZT_OK ? zt_writer_open(ctx, path, o, m, w->entry, w->n) : NULL;
    if (s == ZT_OK) s = out ? put_all(w, out) : zt_ctx_status(ctx);
    zt_writer_close(out);
    zt_meta_free(m);
    return s;
}

zt_status zt_dna_write_signatures(zt_dna *d, const char *path, const zt_checkpoint_opts *o)
{
    size_t n = (size_t)d->n + 1;
    bool exact = zt_dna_is_net(d) || d->rule == ZT_RULE_LOOM;
    writing w = {.d = d, .dtype = exact ? ZT_F32 : ZT_F16};
    w.entry = zt_calloc(d->ctx, n, sizeof *w.entry);
    w.length = zt_calloc(d->ctx, n, sizeof *w.length);
    w.layer = zt_calloc(d->ctx, n, sizeof *w.layer);
    w.keep = zt_arena_new(d->ctx, 0);
    bool room = w.entry && w.length && w.layer && w.keep;
    for (int k = 0; k < TEXTS && room; k++)
        room = (w.text[k] = zt_calloc(d->ctx, n, sizeof *w.text[k]));
    zt_status s = room ? write_all(&w, path, o) : ZT_ENOMEM;
    for (int k = 0; k < TEXTS; k++) zt_free(d->ctx, w.text[k]);
    zt_free(d->ctx, w.entry);
    zt_free(d->ctx, w.length);
    zt_free(d->ctx, w.layer);
    zt_arena_free(w.keep);
    return s;
}
