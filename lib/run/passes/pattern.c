/* pattern.c - owns the patterns of fused rows: each case of a row,
 * expanded, is a graph to look for.
 *
 * Cases of the same graph are one pattern. A fused attribute is read from an attribute of a node
 * that was equal to it in every case; one that never was (a word that chooses the node's op) is
 * part of the pattern. Whatever is guessed here, nothing is replaced before the row, expanded again
 * with the attributes gathered, is exactly what was found (match.c).
 */
#include "lib/run/passes/pattern.h"

#include <stdlib.h>
#include <string.h>

/* ---- an emitter that writes down ------------------------------------------------------------- */

static zt_status dag_op(void *user, zt_op op, const void *attrs, const int *inputs, int *outputs)
{
    zt_dag *dag = user;
    const zt_opinfo *op_info = zt_op_info(op);
    const zt_type *types[ZT_MAX_IN] = {0};
    bool good = !dag->failed && dag->n < ZT_DAG_NODES;
    for (int input = 0; input < op_info->n_in && good; input++) {
        good = inputs[input] != -1;
        types[input] = inputs[input] >= 0 ? &dag->type[inputs[input]] : NULL;
    }
    if (good) {
        zt_step *step = &dag->node[dag->n];
        memcpy(dag->attrs[dag->n], attrs ? attrs : op_info->defaults, op_info->attr_bytes);
        *step = (zt_step){.op = op, .attrs = dag->attrs[dag->n]};
        for (int input = 0; input < ZT_MAX_IN; input++) step->in[input] = input < op_info->n_in ? inputs[input] : ZT_NONE;
        good = zt_op_infer(NULL, op, step->attrs, types, &dag->type[ZT_DAG_OUT(dag->n, 0)]) == ZT_OK;
    }
    for (int output = 0; output < op_info->n_out; output++) outputs[output] = good ? ZT_DAG_OUT(dag->n, output) : -1;
    dag->n += good;
    dag->failed = !good;
    return good ? ZT_OK : ZT_ESHAPE;
}

static zt_type dag_type(void *user, int value_id)
{
    const zt_dag *dag = user;
    zt_type type = value_id >= 0 && value_id < ZT_DAG_VALUES ? dag->type[value_id] : (zt_type){0};
    for (int axis = 0; axis < type.rank && dag->no_dims; axis++) type.dim[axis] = -1;
    return type;
}

bool zt_dag_expand(zt_dag *dag, zt_op op, const void *attrs, const zt_type *const input_types[], bool no_dims)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const zt_emit emitter = {dag, dag_op, dag_type};
    int values[ZT_MAX_IN];
    dag->n = 0;
    dag->failed = false;
    dag->no_dims = no_dims;
    for (int input = 0; input < op_info->n_in; input++) {
        values[input] = input_types[input] ? input : ZT_NONE;
        if (input_types[input]) dag->type[input] = *input_types[input];
    }
    for (int output = 0; output < ZT_MAX_OUT; output++) dag->out[output] = ZT_NONE;
    op_info->def->expand(&emitter, attrs, values, dag->out);
    bool good = !dag->failed && dag->n > 1;
    for (int output = 0; output < op_info->n_out; output++) good = good && dag->out[output] != -1;
    return good && dag->out[0] >= ZT_MAX_IN;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static size_t bytes_of(zt_attr_kind kind)
{
    static const size_t bytes[] = {
        [ZT_ATTR_i64] = sizeof(int64_t),    [ZT_ATTR_f64] = sizeof(double),   [ZT_ATTR_word] = sizeof(zt_enum_string),
        [ZT_ATTR_dims] = sizeof(zt_dims),   [ZT_ATTR_ints] = sizeof(zt_ints), [ZT_ATTR_str] = sizeof(char *),
        [ZT_ATTR_func] = sizeof(zt_func *),
    };
    return bytes[kind];
}

static bool field_same(const zt_attrdef *attribute, const void *first_attrs, const zt_attrdef *other_attribute,
                       const void *second_attrs)
{
    const char *first_field = (const char *)first_attrs + attribute->offset,
               *second_field = (const char *)second_attrs + other_attribute->offset;
    if (attribute->kind != other_attribute->kind) return false;
    if (attribute->kind == ZT_ATTR_word) return !strncmp(first_field, second_field, sizeof(zt_enum_string));
    return !memcmp(first_field, second_field, bytes_of(attribute->kind));
}

/* Attributes of nodes that are equal to the fused one: those of its name, and, where it is not what
 * it is by default, others after them. */
static void find_sources(const zt_dag *dag, const zt_opinfo *fused, const zt_attrdef *attribute, const void *attrs,
                         zt_origin *origin)
{
    int last = field_same(attribute, attrs, attribute, fused->defaults) ? 1 : 0;
    origin->n = 0;
    for (int named = 1; named >= last; named--)
        for (int j = 0; j < dag->n; j++) {
            const zt_opinfo *op_info = zt_op_info(dag->node[j].op);
            for (int attr_index = 0; attr_index < op_info->n_attrs && origin->n < ZT_MAX_SOURCES; attr_index++)
                if (named == !strcmp(op_info->attrs[attr_index].name, attribute->name) &&
                    field_same(attribute, attrs, &op_info->attrs[attr_index], dag->node[j].attrs))
                    origin->at[origin->n++] = (zt_source){(short)j, (short)attr_index};
        }
}

/* What is left of origin's sources when only those of `also` count; false: nothing. */
static bool narrow_origin(zt_origin *origin, const zt_origin *also)
{
    int kept = 0;
    for (int i = 0; i < origin->n; i++)
        for (int k = 0; k < also->n; k++)
            if (origin->at[i].node == also->at[k].node && origin->at[i].attr == also->at[k].attr) {
                origin->at[kept++] = origin->at[i];
                break;
            }
    origin->n = kept;
    return kept > 0;
}

/* Is it the same graph, with the same constants; then its sources are narrowed. */
static bool join_pattern(zt_pattern *pattern, const zt_dag *dag, zt_op op, const void *attrs, const zt_origin *origin)
{
    const zt_opinfo *op_info = zt_op_info(op);
    zt_origin both[ZT_MAX_ATTR_BYTES / 8];
    bool same = pattern->op == op && pattern->n == dag->n && !memcmp(pattern->out, dag->out, sizeof pattern->out);
    for (int j = 0; j < dag->n && same; j++)
        same = pattern->node[j] == dag->node[j].op && !memcmp(pattern->in[j], dag->node[j].in, sizeof pattern->in[j]);
    for (int attr_index = 0; attr_index < op_info->n_attrs && same; attr_index++) {
        both[attr_index] = pattern->gather[attr_index];
        same = pattern->gather[attr_index].n
                   ? narrow_origin(&both[attr_index], &origin[attr_index])
                   : field_same(&op_info->attrs[attr_index], pattern->attrs, &op_info->attrs[attr_index], attrs);
    }
    if (same) memcpy(pattern->gather, both, (size_t)op_info->n_attrs * sizeof *both);
    return same;
}

/* ---- the list -------------------------------------------------------------------------------- */

static unsigned sinks_of(const zt_dag *dag)
{
    unsigned read = 0;
    for (int j = 0; j < dag->n; j++)
        for (int input = 0; input < ZT_MAX_IN; input++)
            if (dag->node[j].in[input] >= ZT_MAX_IN) read |= 1u << (dag->node[j].in[input] - ZT_MAX_IN) / ZT_MAX_OUT;
    return ((1u << dag->n) - 1) & ~read;
}

static bool fill_pattern(zt_arena *arena, zt_pattern *pattern, const zt_dag *dag, zt_op op, const void *attrs,
                         const zt_origin *origin, int order)
{
    const zt_opinfo *op_info = zt_op_info(op);
    size_t n_attrs = (size_t)op_info->n_attrs;
    *pattern = (zt_pattern){.op = op, .order = order, .n = dag->n, .sinks = sinks_of(dag)};
    memcpy(pattern->out, dag->out, sizeof pattern->out);
    for (int j = 0; j < dag->n; j++) {
        pattern->node[j] = dag->node[j].op;
        memcpy(pattern->in[j], dag->node[j].in, sizeof pattern->in[j]);
    }
    pattern->gather = zt_arena_alloc(arena, (n_attrs + 1) * sizeof *pattern->gather);
    pattern->attrs = zt_arena_alloc(arena, op_info->attr_bytes);
    if (!pattern->gather || !pattern->attrs) return false;
    memcpy(pattern->gather, origin, n_attrs * sizeof *origin);
    memcpy(pattern->attrs, attrs, op_info->attr_bytes);
    return true;
}

typedef struct pattern_maker {
    zt_arena *arena;
    zt_dag *dag, *idle; /* idle: scratch of drop_idle */
    zt_pattern *list;
    int count, capacity;
} pattern_maker;

static zt_status add_pattern(pattern_maker *maker, zt_op op, const void *attrs, const zt_origin *origin, int first)
{
    for (int i = first; i < maker->count; i++)
        if (join_pattern(&maker->list[i], maker->dag, op, attrs, origin)) return ZT_OK;
    if (maker->count == maker->capacity) {
        int cap = maker->capacity ? 2 * maker->capacity : 32;
        zt_pattern *more = zt_arena_alloc(maker->arena, (size_t)cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        if (maker->count) memcpy(more, maker->list, (size_t)maker->count * sizeof *more);
        maker->list = more;
        maker->capacity = cap;
    }
    maker->count++;
    return fill_pattern(maker->arena, &maker->list[maker->count - 1], maker->dag, op, attrs, origin, maker->count) ? ZT_OK
                                                                                                                   : ZT_ENOMEM;
}

static bool dags_same(const zt_dag *first, const zt_dag *second)
{
    bool same = first->n == second->n && !memcmp(first->out, second->out, sizeof first->out);
    for (int j = 0; j < first->n && same; j++)
        same = first->node[j].op == second->node[j].op &&
               !memcmp(first->node[j].in, second->node[j].in, sizeof first->node[j].in) &&
               zt_attrs_same(first->node[j].op, first->node[j].attrs, second->node[j].attrs);
    return same;
}

/* Attributes that come from no node and change nothing (of a norm that is not there) become what
 * they are by default. */
static void drop_idle(pattern_maker *maker, zt_op op, void *attrs, const zt_type *const input_types[], const zt_origin *origin)
{
    const zt_opinfo *op_info = zt_op_info(op);
    int64_t plain[ZT_MAX_ATTR_BYTES / 8];
    for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++) {
        const zt_attrdef *attribute = &op_info->attrs[attr_index];
        if (origin[attr_index].n || field_same(attribute, attrs, attribute, op_info->defaults)) continue;
        memcpy(plain, attrs, op_info->attr_bytes);
        memcpy((char *)plain + attribute->offset, (const char *)op_info->defaults + attribute->offset, bytes_of(attribute->kind));
        if (zt_dag_expand(maker->idle, op, plain, input_types, true) && dags_same(maker->dag, maker->idle))
            memcpy(attrs, plain, op_info->attr_bytes);
    }
}

static zt_status add_row(pattern_maker *maker, zt_op op)
{
    const zt_opinfo *op_info = zt_op_info(op);
    zt_origin origins[ZT_MAX_ATTR_BYTES / 8];
    zt_case made;
    int first = maker->count;
    zt_status status = ZT_OK;
    for (int i = 0; zt_op_case(op, i, &made) && !status; i++) {
        const zt_type *input_types[ZT_MAX_IN] = {0};
        for (int input = 0; input < op_info->n_in; input++)
            if (made.fill[input] != ZT_FILL_ABSENT) input_types[input] = &made.in[input];
        if (!zt_dag_expand(maker->dag, op, made.attrs, input_types, true)) continue;
        for (int attr_index = 0; attr_index < op_info->n_attrs; attr_index++)
            find_sources(maker->dag, op_info, &op_info->attrs[attr_index], made.attrs, &origins[attr_index]);
        drop_idle(maker, op, made.attrs, input_types, origins);
        status = add_pattern(maker, op, made.attrs, origins, first);
    }
    return status;
}

/* Of as many nodes: in the order of the table. */
static int by_size(const void *left, const void *right)
{
    const zt_pattern *left_pattern = left, *right_pattern = right;
    return left_pattern->n != right_pattern->n ? right_pattern->n - left_pattern->n : left_pattern->order - right_pattern->order;
}

zt_status zt_patterns_make(zt_arena *arena, zt_pattern **list, int *count)
{
    pattern_maker maker = {
        .arena = arena, .dag = zt_arena_alloc(arena, sizeof *maker.dag), .idle = zt_arena_alloc(arena, sizeof *maker.dag)};
    zt_status status = maker.dag && maker.idle ? ZT_OK : ZT_ENOMEM;
    for (int op = 0; op < ZT_OP_COUNT && !status; op++) {
        const zt_opdef *def = zt_op_info((zt_op)op)->def;
        if (def->expand && def->flags & ZT_OPF_SAME) status = add_row(&maker, (zt_op)op);
    }
    if (maker.count) qsort(maker.list, (size_t)maker.count, sizeof *maker.list, by_size);
    *list = maker.list;
    *count = maker.count;
    return status;
}
