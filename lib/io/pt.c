/* pt.c - owns open checkpoints: opening and closing, tensors by name, reading them. */
#include "lib/io/fault.h"
#include "lib/io/pt_file.h"

#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

static bool is_zip(const zt_source *s)
{
    uint8_t head[4];
    return zt_source_size(s) >= sizeof head && zt_source_read(s, 0, head, sizeof head) == ZT_OK &&
           zt_zip_sniff(head, sizeof head);
}

/* What is right of all checkpoints: no file makes much more of itself than it is. */
static zt_status check_sum(const zt_pt *t)
{
    uint64_t most = zt_source_size(t->in), sum = 0;
    most = most > UINT64_MAX / 64 - (1 << 20) ? UINT64_MAX : 64 * (most + (1 << 20));
    for (int64_t i = 0; i < t->n; i++) {
        const pt_tensor *x = &t->tensor[i];
        uint64_t cost = x->a.bytes + (x->layout.forward ? t->storage[x->storage].bytes : 0);
        if (cost > most - sum)
            return zt_fail(
                t->ctx, ZT_EDATA,
                "%s: its tensors name the same bytes over and over: %llu of them and more", t->file,
                (unsigned long long)most);
        sum += cost;
    }
    return ZT_OK;
}

/* Is it known where the tensor's bytes are? A storage's fault is told once. */
static zt_status check_place(const zt_pt *t, const pt_tensor *x)
{
    char text[160], key[80];
    const pt_storage *s = &t->storage[x->storage];
    if (s->placed || s->told)
        return ZT_OK;
    return zt_fail(t->ctx, ZT_EDATA, "%s: tensor '%s': its storage '%s' is not in the file",
                   t->file, zt_escape(text, sizeof text, x->a.name, strlen(x->a.name)),
                   zt_escape(key, sizeof key, s->key, strlen(s->key)));
}

/* Tensors keep their places in the list of names, but for those whose faults have been told. */
static zt_status name_again(zt_pt *t)
{
    zt_status st = ZT_OK;
    zt_map_free(t->names);
    t->names = zt_map_new(t->ctx, (size_t)t->n);
    for (int64_t i = 0; t->names && st == ZT_OK && i < t->n; i++)
        st = zt_map_put(t->names, t->tensor[i].a.name, strlen(t->tensor[i].a.name), i);
    return t->names ? st : ZT_ENOMEM;
}

/* All storages have been found; how their bytes come is known. */
static zt_status place_tensors(zt_pt *t)
{
    int64_t kept = 0;
    zt_status st = ZT_OK;
    for (int64_t i = 0; st == ZT_OK && i < t->n; i++) {
        pt_tensor *x = &t->tensor[i];
        const pt_storage *s = &t->storage[x->storage];
        st = zt_faults_pass(t->ctx, check_place(t, x));
        if (st != ZT_OK || !s->placed)
            continue;
        x->layout.forward = s->member >= 0 && zt_zip_get(t->zip, s->member)->deflated;
        if (!t->big)
            x->layout.swap = 1;
        t->tensor[kept++] = *x;
    }
    if (st == ZT_OK && kept != t->n) {
        t->n = kept;
        st = name_again(t);
    }
    return st == ZT_OK ? check_sum(t) : st;
}

static zt_status parse(zt_pt *t)
{
    zt_status st = ZT_OK;
    if (is_zip(t->in)) {
        t->zip = zt_zip_from(t->ctx, t->in);
        st = t->zip ? zt_pt_parse_zip(t) : zt_ctx_status(t->ctx);
    } else {
        st = zt_pt_parse_older(t);
    }
    return st == ZT_OK ? place_tensors(t) : st;
}

/* What is in the file and not in the list of tensors, in one line. */
static void log_left_out(const zt_pt *t)
{
    const bool globals = t->unknown.len, tensors = t->unread.len;
    if (globals || tensors)
        zt_log(t->ctx, ZT_LOG_WARN, "%s: %s%s%s%s%s", t->file,
               globals ? "unknown globals, kept as opaque values and not called: " : "",
               globals ? t->unknown.data : "", globals && tensors ? "; " : "",
               tensors ? "tensors that are not read: " : "", tensors ? t->unread.data : "");
}

zt_pt *zt_pt_from(zt_ctx *ctx, zt_source *s)
{
    zt_pt *t = zt_calloc(ctx, 1, sizeof *t);
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->in = s;
    t->file = zt_source_name(s);
    zt_str_init(&t->unknown, ctx);
    zt_str_init(&t->unread, ctx);
    t->keep = zt_arena_new(ctx, 1 << 14);
    t->gather = t->keep ? zt_gather_new(ctx) : NULL;
    t->keys = t->gather ? zt_map_new(ctx, 64) : NULL;
    t->names = t->keys ? zt_map_new(ctx, 64) : NULL;
    if (t->names && parse(t) == ZT_OK) {
        log_left_out(t);
        return t;
    }
    zt_pt_close(t);
    return NULL;
}

zt_pt *zt_pt_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    return s ? zt_pt_take(ctx, s) : NULL;
}

zt_pt *zt_pt_take(zt_ctx *ctx, zt_source *s)
{
    zt_pt *t = zt_pt_from(ctx, s);
    if (t)
        t->owned = s;
    else
        zt_source_close(s);
    return t;
}

void zt_pt_close(zt_pt *t)
{
    if (!t)
        return;
    zt_zip_close(t->zip);
    zt_gather_free(t->gather);
    zt_map_free(t->keys);
    zt_map_free(t->names);
    zt_arena_free(t->keep);
    zt_str_fini(&t->unknown);
    zt_str_fini(&t->unread);
    zt_free(t->ctx, t->storage);
    zt_free(t->ctx, t->tensor);
    zt_source_close(t->owned);
    zt_free(t->ctx, t);
}

/* Does the first member's name, as it stands at the file's beginning, end so? */
static bool first_ends(const zt_source *s, const char *end)
{
    uint8_t head[30], tail[16];
    size_t k = strlen(end);
    if (zt_source_size(s) < sizeof head || zt_source_read(s, 0, head, sizeof head) != ZT_OK)
        return false;
    size_t n = head[26] | (size_t)head[27] << 8, at = sizeof head + n - k;
    return n >= k && zt_source_size(s) - sizeof head >= n &&
           zt_source_read(s, at, tail, k) == ZT_OK && memcmp(tail, end, k) == 0;
}

bool zt_pt_is_zip(const zt_source *s)
{
    if (!is_zip(s) ||
        first_ends(s, ".npy")) /* NumPy's first member, PyTorch's: no need to look on */
        return false;
    if (first_ends(s, "/data.pkl"))
        return true;
    zt_ctx *ctx = zt_ctx_new(); /* its messages are nobody's */
    zt_zip *z = ctx ? zt_zip_from(ctx, s) : NULL;
    bool is = false;
    for (int64_t i = 0; z && !is && i < zt_zip_count(z); i++) {
        const char *slash = strchr(zt_zip_get(z, i)->name, '/');
        is = slash && strcmp(slash, "/data.pkl") == 0;
    }
    zt_zip_close(z);
    zt_ctx_free(ctx);
    return is;
}

/* ---- tensors --------------------------------------------------------------------------------- */

int64_t zt_pt_count(const zt_pt *t)
{
    return t->n;
}

const zt_array *zt_pt_get(const zt_pt *t, int64_t i)
{
    return &t->tensor[i].a;
}

int64_t zt_pt_find(const zt_pt *t, const char *name)
{
    return zt_map_find(t->names, name);
}

typedef struct raw {
    const zt_pt *t;
    const pt_storage *s;
} raw;

static zt_status fetch(void *user, uint64_t offset, void *dst, size_t n)
{
    const raw *r = user;
    if (r->s->member >= 0)
        return zt_zip_read(r->t->zip, r->s->member, offset, dst, n);
    return zt_source_read(r->t->in, r->s->begin + offset, dst, n);
}

zt_status zt_pt_read(zt_pt *t, int64_t i, size_t offset, void *dst, size_t n)
{
    const pt_tensor *x = &t->tensor[i];
    raw r = {.t = t, .s = &t->storage[x->storage]};
    zt_status st = zt_array_range(t->ctx, t->file, &x->a, offset, n);
    return st == ZT_OK ? zt_gather_read(t->gather, &x->layout, i, offset, dst, n, fetch, &r) : st;
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_pt *t = user;
    *handle = zt_pt_find(t, name);
    return *handle < 0 ? ZT_ENOENT : zt_array_type(t->ctx, t->file, zt_pt_get(t, *handle), type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_pt_read(user, handle, offset, dst, n);
}

zt_store zt_pt_store(zt_pt *t)
{
    return (zt_store){.user = t, .find = store_find, .read = store_read};
}
