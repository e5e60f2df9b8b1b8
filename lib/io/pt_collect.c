/* pt_collect.c - owns collecting the tensors of what a pickle made: each gets its path as its name.
 *
 * Attributes of an unknown object are parts of a path as keys of a dictionary are. A module of
 * PyTorch's is such an object; its tensors get the names that its state_dict would give them. What
 * has no name, and tensors that zt does not hold, are counted as unread.
 */
#include "lib/io/pt_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 128,
    MAX_NAME = 1 << 16,
    OFTEN = 16, /* values may be met so many times for each opcode that there was, */
    FEW = 4096, /* and so many more: containers that hold each other by the memo are bombs */
    SAID = 6    /* unread tensors, or unknown names, that a message says */
};

typedef struct tensor_collector {
    zt_pt *pt;
    zt_str path;
    int parts;        /* keys that the path is made of */
    int nameless;     /* keys above that are neither text nor number, and sets */
    int opaque;       /* unknown objects above */
    const char *lost; /* why tensors here have no name; NULL: they have */
    int depth;
    size_t left;   /* visits */
    size_t budget; /* bytes for tensors and their names */
} tensor_collector;

static zt_status fail_at(const tensor_collector *collector, const char *what)
{
    char text[160];
    return zt_fail(collector->pt->base.ctx, ZT_EDATA, "%s: at '%s': %s", collector->pt->base.name,
                   zt_escape(text, sizeof text, collector->path.len ? collector->path.data : "", collector->path.len), what);
}

/* Room for one more of `count`, in steps that double. */
static void *grow_list(zt_ctx *ctx, void *list, int64_t count, size_t size)
{
    return count & (count - 1) ? list : zt_realloc(ctx, list, (size_t)(count ? 2 * count : 1) * size);
}

/* ---- a tensor -------------------------------------------------------------------------------- */

static zt_status find_storage(tensor_collector *collector, const pk_storage *storage, int64_t *out)
{
    zt_pt *pt = collector->pt;
    size_t length = strlen(storage->key);
    if (zt_map_get(pt->keys, storage->key, length, out))
        return pt->storages[*out].bytes == storage->bytes ? ZT_OK : fail_at(collector, "the storage is declared with two sizes");
    pt_storage *list = grow_list(pt->base.ctx, pt->storages, pt->storage_count, sizeof *list);
    if (!list) return ZT_ENOMEM;
    pt->storages = list;
    *out = pt->storage_count++;
    list[*out] = (pt_storage){
        .key = storage->key, .bytes = storage->bytes, .item = storage->dtype ? storage->dtype->item : 1, .member = -1};
    return zt_map_put(pt->keys, storage->key, length, *out);
}

static void set_layout(pt_tensor *tensor, const pk_tensor *source)
{
    int64_t count;
    uint64_t span;
    tensor->layout = (zt_layout){.rank = source->rank,
                                 .dim = source->dim,
                                 .stride = source->stride,
                                 .item = source->dtype->item,
                                 .swap = source->dtype->swap,
                                 .begin = source->storage->begin + (uint64_t)source->offset * source->dtype->item};
    zt_layout_check(&tensor->layout, &count, &span); /* the pickle's reader has, too */
    tensor->array.type = (zt_type){.dtype = source->dtype->dtype, .rank = source->rank <= ZT_MAX_RANK ? source->rank : -1};
    for (int i = 0; i < tensor->array.type.rank; i++) tensor->array.type.dim[i] = source->dim[i];
    tensor->array.dtype = source->dtype->name;
    tensor->array.bytes = (size_t)count * source->dtype->item;
    tensor->array.rank = source->rank;
    tensor->array.dim = source->dim;
}

static zt_status add_tensor(tensor_collector *collector, const pk_tensor *source)
{
    zt_pt *pt = collector->pt;
    const char *path = collector->path.len ? collector->path.data : "";
    size_t length = collector->path.len, cost = length + 2 * sizeof(pt_tensor) + 64;
    if (cost > collector->budget) return fail_at(collector, "too many tensors for the size of the file");
    collector->budget -= cost;
    if (memchr(path, 0, length)) return fail_at(collector, "tensor name contains a zero byte");
    if (zt_map_get(pt->base.names, path, length, NULL)) return fail_at(collector, "duplicate tensor name");
    pt_tensor *list = grow_list(pt->base.ctx, pt->tensors, pt->base.count, sizeof *list);
    if (!list) return ZT_ENOMEM;
    pt->tensors = list;
    pt_tensor *tensor = &list[pt->base.count];
    *tensor = (pt_tensor){.array = {.name = zt_arena_strndup(pt->base.arena, path, length)}};
    if (!tensor->array.name) return ZT_ENOMEM;
    set_layout(tensor, source);
    zt_status status = find_storage(collector, source->storage, &tensor->storage_index);
    return status == ZT_OK ? zt_map_put(pt->base.names, tensor->array.name, length, pt->base.count++) : status;
}

/* A tensor at this path is not read. Several in one object are said once. */
static zt_status report_lost(tensor_collector *collector, const char *why)
{
    zt_pt *pt = collector->pt;
    char path[100], text[200];
    zt_escape(path, sizeof path, collector->path.len ? collector->path.data : "", collector->path.len);
    snprintf(text, sizeof text, "'%s' (%s)", path, why);
    if (strcmp(text, pt->unread_last) == 0) return ZT_OK;
    memcpy(pt->unread_last, text, sizeof text);
    if (pt->unread_count++ >= SAID) return ZT_OK;
    return zt_str_printf(&pt->unread, "%s%s", pt->unread_count > 1 ? ", " : "", text);
}

/* ---- containers ------------------------------------------------------------------------------ */

static zt_status visit_value(tensor_collector *collector, const pk_value *value);

/* A value below a key. */
static zt_status visit_below(tensor_collector *collector, const pk_value *value, const pk_value *key)
{
    if (collector->lost) return visit_value(collector, value);
    size_t length = collector->path.len;
    bool named = key->kind == PK_TEXT || key->kind == PK_INT;
    zt_status status = named && collector->parts ? zt_str_putc(&collector->path, '.') : ZT_OK;
    collector->parts += named;
    if (status == ZT_OK && key->kind == PK_TEXT)
        status = zt_str_put(&collector->path, key->text, key->count);
    else if (status == ZT_OK && named)
        status = zt_str_printf(&collector->path, "%" PRId64, key->i);
    if (status == ZT_OK && collector->path.len > MAX_NAME) status = fail_at(collector, "path exceeds 64 KiB");
    collector->nameless += !named;
    if (status == ZT_OK) status = visit_value(collector, value);
    collector->nameless -= !named;
    collector->parts -= named;
    collector->path.len = length;
    return status;
}

static zt_status visit_items(tensor_collector *collector, const pk_value *items, size_t count, bool set)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < count; i++) {
        pk_value key = {.kind = set ? PK_NONE : PK_INT, .i = (int64_t)i};
        status = visit_below(collector, &items[i], &key);
    }
    return status;
}

/* Of keys nothing but the name is looked at. */
static zt_status visit_dict(tensor_collector *collector, const pk_list *list)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i + 1 < list->count; i += 2)
        status = visit_below(collector, &list->items[i + 1], &list->items[i]);
    return status;
}

/* What has no name of its own. */
static zt_status visit_lost(tensor_collector *collector, const pk_value *value, const char *why)
{
    const char *outer = collector->lost;
    collector->lost = outer ? outer : why;
    zt_status status = visit_value(collector, value);
    collector->lost = outer;
    return status;
}

/* ---- objects --------------------------------------------------------------------------------- */

static const char inside_object[] = "inside an unknown object";

/* A dictionary of attributes, or a pair of such and of slots. */
static zt_status visit_state(tensor_collector *collector, const pk_value *value)
{
    bool pair = value->kind == PK_TUPLE && value->count == 2;
    for (uint32_t i = 0; pair && i < 2; i++) pair = value->items[i].kind == PK_DICT || value->items[i].kind == PK_NONE;
    if (!pair) return value->kind == PK_DICT ? visit_dict(collector, value->list) : visit_lost(collector, value, inside_object);
    zt_status status = visit_state(collector, &value->items[0]);
    return status == ZT_OK ? visit_state(collector, &value->items[1]) : status;
}

static zt_status visit_tensor(tensor_collector *collector, const pk_tensor *source)
{
    if (collector->lost || collector->nameless)
        return report_lost(collector, collector->lost ? collector->lost : "in a set, or below a key that is not a name");
    zt_status status = add_tensor(collector, source);
    return status == ZT_OK && source->state ? visit_state(collector, source->state) : status;
}

/* The attribute of this name; NULL: none. */
static const pk_value *find_attribute(const pk_object *object, const char *name)
{
    for (size_t i = 0; i < object->state.count; i++) {
        const pk_value *state = &object->state.items[i];
        for (size_t k = 0; state->kind == PK_DICT && k + 1 < state->list->count; k += 2)
            if (state->list->items[k].kind == PK_TEXT && zt_pk_is(state->list->items[k].text, state->list->items[k].count, name))
                return &state->list->items[k + 1];
    }
    return NULL;
}

/* The parts of torch.nn.Module that make its state_dict, in its order. */
enum { PARAMETERS, BUFFERS, MODULES, PARTS };

static bool is_module(const pk_object *object, const pk_value *parts[PARTS])
{
    static const char *const names[PARTS] = {"_parameters", "_buffers", "_modules"};
    bool complete = true;
    for (int i = 0; complete && i < PARTS; i++) {
        parts[i] = find_attribute(object, names[i]);
        complete = parts[i] && parts[i]->kind == PK_DICT;
    }
    return complete;
}

/* Is the key one of a set of texts? */
static bool is_among(const pk_value *key, const pk_value *set)
{
    for (size_t i = 0; set && set->kind == PK_LIST && i < set->list->count; i++) {
        const pk_value *value = &set->list->items[i];
        if (value->kind == PK_TEXT && key->kind == PK_TEXT && value->count == key->count &&
            memcmp(value->text, key->text, value->count) == 0)
            return true;
    }
    return false;
}

static zt_status visit_module(tensor_collector *collector, const pk_object *object, const pk_value *parts[PARTS])
{
    const pk_value *skip = find_attribute(object, "_non_persistent_buffers_set");
    zt_status status = ZT_OK;
    for (int k = 0; k < PARTS; k++) {
        const pk_list *list = parts[k]->list;
        for (size_t i = 0; status == ZT_OK && i + 1 < list->count; i += 2)
            if (k != BUFFERS || !is_among(&list->items[i], skip))
                status = visit_below(collector, &list->items[i + 1], &list->items[i]);
    }
    return status;
}

static zt_status visit_parts(tensor_collector *collector, const pk_object *object)
{
    zt_status status = visit_dict(collector, &object->pairs);
    if (status == ZT_OK) status = visit_items(collector, object->items.items, object->items.count, false);
    for (size_t i = 0; status == ZT_OK && i < object->state.count; i++) status = visit_state(collector, &object->state.items[i]);
    return status == ZT_OK ? visit_lost(collector, &object->arguments, inside_object) : status;
}

/* A module's tensors have a name by each path to it, as in its state_dict. Another object's have
 * one name, by the first path, however often and by whom, also itself, it is held. */
static zt_status visit_object(tensor_collector *collector, pk_object *object)
{
    const pk_value *parts[PARTS];
    bool lost = collector->lost || collector->nameless, done = object->named || (lost && object->lost);
    if (object->tensor) return visit_tensor(collector, object->tensor);
    if (object->type->what == PK_TENSOR_CLASS) return report_lost(collector, "a tensor without data");
    bool module = is_module(object, parts);
    if (done && !module) return ZT_OK;
    *(lost ? &object->lost : &object->named) = true;
    collector->opaque++;
    zt_status status = module ? visit_module(collector, object, parts) : visit_parts(collector, object);
    collector->opaque--;
    return status;
}

static zt_status dispatch_value(tensor_collector *collector, const pk_value *value)
{
    pk_value attributes = {.kind = PK_DICT};
    zt_status status = ZT_OK;
    switch (value->kind) {
    case PK_TENSOR: return visit_tensor(collector, value->tensor);
    case PK_OBJECT: return visit_object(collector, value->object);
    case PK_FOREIGN: return report_lost(collector, value->text);
    case PK_STORAGE: return report_lost(collector, collector->lost ? collector->lost : "a storage without a tensor");
    case PK_TUPLE: return visit_items(collector, value->items, value->count, false);
    case PK_LIST: return visit_items(collector, value->list->items, value->list->count, value->list->set);
    case PK_DICT:
        status = visit_dict(collector, value->list);
        attributes.list = value->list->attr;
        return status == ZT_OK && attributes.list ? visit_lost(collector, &attributes, "an attribute of a dictionary") : status;
    default: return ZT_OK;
    }
}

static zt_status visit_value(tensor_collector *collector, const pk_value *value)
{
    if (!collector->left--) return fail_at(collector, "containers reference each other too often");
    if (collector->depth == MAX_DEPTH && collector->opaque) return report_lost(collector, "an unknown object nested too deeply");
    if (collector->depth == MAX_DEPTH) return fail_at(collector, "containers are nested too deeply");
    collector->depth++;
    zt_status status = dispatch_value(collector, value);
    collector->depth--;
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The first unknown names that the pickle used, as a list. */
static zt_status list_unknown(zt_pt *pt, const pickle_reader *pickle)
{
    const pk_global *first[SAID] = {0};
    int64_t remaining = pickle->unknown_count;
    for (const pk_global *global = pickle->unknown; global; global = global->previous) /* the last one first */
        if (--remaining < SAID) first[remaining] = global;
    zt_status status = ZT_OK;
    for (int i = 0; status == ZT_OK && i < SAID && first[i]; i++)
        status = zt_str_printf(&pt->unknown, "%s%s", i ? ", " : "", first[i]->shown);
    if (status == ZT_OK && pickle->unknown_count > SAID)
        status = zt_str_printf(&pt->unknown, " and %" PRId64 " more", pickle->unknown_count - SAID);
    return status;
}

/* A file whose tensors are all lost has none, which is an answer that nobody may take for one. */
static zt_status check_not_empty(zt_pt *pt, const pickle_reader *pickle)
{
    if (pt->base.count == 0 && pt->unread_count)
        return zt_fail(pt->base.ctx, ZT_EDATA, "%s: no tensor can be read: %s%s%s", pt->base.name, pt->unread.data,
                       pickle->unknown_count ? "; unknown globals, not called: " : "",
                       pickle->unknown_count ? pt->unknown.data : "");
    if (pt->base.count == 0 && pickle->unknown_count)
        return zt_fail(pt->base.ctx, ZT_EDATA, "%s: no tensors; unknown globals, not called: %s", pt->base.name,
                       pt->unknown.data);
    return ZT_OK;
}

/* The older format has all storages in the file, also those that no tensor here uses. */
static zt_status add_storages(tensor_collector *collector, const pickle_reader *pickle)
{
    int64_t index;
    zt_status status = ZT_OK;
    for (const pk_storage *storage = pickle->storages; status == ZT_OK && storage; storage = storage->previous)
        status = find_storage(collector, storage, &index);
    return status;
}

zt_status zt_pt_collect(zt_pt *pt, pk_value root, const pickle_reader *pickle)
{
    tensor_collector collector = {.pt = pt, .left = OFTEN * pickle->ops + FEW, .budget = pickle->budget};
    zt_str_init(&collector.path, pt->base.ctx);
    zt_status status = visit_value(&collector, &root);
    if (status == ZT_OK && !pt->zip) status = add_storages(&collector, pickle);
    if (status == ZT_OK) status = list_unknown(pt, pickle);
    if (status == ZT_OK && pt->unread_count > SAID)
        status = zt_str_printf(&pt->unread, " and %" PRId64 " more", pt->unread_count - SAID);
    zt_str_fini(&collector.path);
    return status == ZT_OK ? check_not_empty(pt, pickle) : status;
}
