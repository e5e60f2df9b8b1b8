/* dna.c - owns opening: which layers a checkpoint has. */
#include "lib/dna/dna_file.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

/* A layer for each tensor. */
static zt_status list_tensors(zt_dna *d)
{
    int64_t n = zt_checkpoint_count(d->from);
    d->layer = zt_calloc(d->ctx, (size_t)n + 1, sizeof *d->layer);
    d->part = zt_calloc(d->ctx, (size_t)n + 1, sizeof *d->part);
    d->first = zt_alloc_array(d->ctx, (size_t)n + 1, sizeof *d->first);
    if (!d->layer || !d->part || !d->first) return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        zt_entry e;
        zt_checkpoint_get(d->from, i, &e);
        bool known = e.type.dtype != ZT_DTYPE_COUNT && e.type.rank >= 0;
        d->layer[i] = (zt_dna_layer){.name = e.name,
                                     .dtype = e.dtype,
                                     .shape = e.type,
                                     .n = known ? zt_type_count(&e.type) : 0};
        d->part[i] = (dna_part){.tensor = i, .n = d->layer[i].n, .next = i + 1};
        d->first[i] = i;
    }
    d->n = d->n_parts = n;
    return zt_dna_places(d);
}

static zt_status list_layers(zt_dna *d)
{
    zt_meta *m = zt_checkpoint_meta(d->from); /* from here on it is there */
    if (!m) return zt_ctx_status(d->ctx);
    int64_t i = zt_meta_find(m, KEY_FRAME);
    zt_bytes frame = i >= 0 ? zt_meta_text(zt_meta_get(m, i)) : (zt_bytes){.data = NULL};
    d->net = d->of_net = frame.data != NULL;
    if (d->net) return zt_dna_net_layers(d, frame);
    zt_status s = list_tensors(d);
    return s == ZT_OK && zt_dna_holds_signatures(d) ? zt_dna_take_signatures(d) : s;
}

static zt_status index_names(zt_dna *d)
{
    zt_status s = ZT_OK;
    d->names = zt_map_new(d->ctx, (size_t)d->n);
    if (!d->names) return ZT_ENOMEM;
    for (int64_t i = 0; i < d->n && s == ZT_OK; i++)
        s = zt_map_put(d->names, d->layer[i].name, strlen(d->layer[i].name), i);
    return s;
}

zt_dna *zt_dna_of(zt_ctx *ctx, zt_checkpoint *c, zt_storage_rule rule)
{
    zt_dna *d = c ? zt_calloc(ctx, 1, sizeof *d) : NULL;
    if (!d) {
        zt_checkpoint_close(c);
        return NULL;
    }
    *d = (zt_dna){
        .ctx = ctx, .from = c, .rule = rule, .texts = zt_arena_new(ctx, 0), .held_layer = -1};
    zt_status s = d->texts ? list_layers(d) : ZT_ENOMEM;
    if (s == ZT_OK) s = index_names(d);
    if (s == ZT_OK) return d;
    zt_dna_close(d);
    return NULL;
}

static const char opening[] = "{\"schema\":\"zt.dna.extract/1\"";

bool zt_dna_sniff(const void *head, size_t n)
{
    return n >= sizeof opening - 1 && memcmp(head, opening, sizeof opening - 1) == 0;
}

static zt_status parse_all(zt_dna *d, const zt_source *s)
{
    size_t n = (size_t)zt_source_size(s);
    char *text = zt_alloc(d->ctx, n + 1);
    d->file = zt_strdup(d->ctx, zt_source_name(s));
    zt_status st = text && d->file && d->texts ? zt_source_read(s, 0, text, n) : ZT_ENOMEM;
    if (st == ZT_OK) st = zt_dna_parse(d, text, n);
    zt_free(d->ctx, text);
    return st == ZT_OK ? index_names(d) : st;
}

zt_dna *zt_dna_of_json(zt_ctx *ctx, const zt_source *s)
{
    zt_dna *d = s ? zt_calloc(ctx, 1, sizeof *d) : NULL;
    if (!d) return NULL;
    *d = (zt_dna){.ctx = ctx, .texts = zt_arena_new(ctx, 0), .held_layer = -1};
    if (parse_all(d, s) == ZT_OK) return d;
    zt_dna_close(d);
    return NULL;
}

static void free_mix(zt_ctx *ctx, dna_mix *m)
{
    if (!m) return;
    zt_free(ctx, m->twin);
    zt_free(ctx, m->alpha);
    zt_free(ctx, m->was);
    zt_free(ctx, m->room);
    zt_free(ctx, m->row);
    zt_free(ctx, m);
}

void zt_dna_close(zt_dna *d)
{
    if (!d) return;
    zt_free(d->ctx, d->part);
    zt_free(d->ctx, d->held);
    zt_free(d->ctx, d->codes);
    if (!d->mix) { /* a child has borrowed these */
        zt_checkpoint_close(d->from);
        zt_arena_free(d->texts);
        zt_map_free(d->names);
        zt_free(d->ctx, d->layer);
        zt_free(d->ctx, d->first);
        zt_free(d->ctx, d->length);
        zt_free(d->ctx, d->file);
        for (int64_t i = 0; d->given && i < d->n; i++) zt_free(d->ctx, d->given[i]);
        zt_free(d->ctx, d->given);
    }
    free_mix(d->ctx, d->mix);
    zt_free(d->ctx, d);
}

const char *zt_dna_name(const zt_dna *d)
{
    return d->from ? zt_checkpoint_name(d->from) : d->file;
}

bool zt_dna_is_net(const zt_dna *d) { return d->of_net; }

bool zt_dna_is_signed(const zt_dna *d) { return d->length != NULL; }

int64_t zt_dna_count(const zt_dna *d) { return d->n; }

const zt_dna_layer *zt_dna_get(const zt_dna *d, int64_t i) { return &d->layer[i]; }

int64_t zt_dna_find(const zt_dna *d, const char *name) { return zt_map_find(d->names, name); }
