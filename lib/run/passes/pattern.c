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
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *types[ZT_MAX_IN] = {0};
    bool good = !dag->failed && dag->n < ZT_DAG_NODES;
    for (int k = 0; k < info->n_in && good; k++) {
        good = inputs[k] != -1;
        types[k] = inputs[k] >= 0 ? &dag->type[inputs[k]] : NULL;
    }
    if (good) {
        zt_step *step = &dag->node[dag->n];
        memcpy(dag->attrs[dag->n], attrs ? attrs : info->defaults, info->attr_bytes);
        *step = (zt_step){.op = op, .attrs = dag->attrs[dag->n]};
        for (int k = 0; k < ZT_MAX_IN; k++) step->in[k] = k < info->n_in ? inputs[k] : ZT_NONE;
        good = zt_op_infer(NULL, op, step->attrs, types, &dag->type[ZT_DAG_OUT(dag->n, 0)]) == ZT_OK;
    }
    for (int k = 0; k < info->n_out; k++) outputs[k] = good ? ZT_DAG_OUT(dag->n, k) : -1;
    dag->n += good;
    dag->failed = !good;
    return good ? ZT_OK : ZT_ESHAPE;
}

static zt_type dag_type(void *user, int v)
{
    const zt_dag *dag = user;
    zt_type type = v >= 0 && v < ZT_DAG_VALUES ? dag->type[v] : (zt_type){0};
    for (int i = 0; i < type.rank && dag->no_dims; i++) type.dim[i] = -1;
    return type;
}

bool zt_dag_expand(zt_dag *dag, zt_op op, const void *attrs, const zt_type *const input_types[], bool no_dims)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_emit e = {dag, dag_op, dag_type};
    int values[ZT_MAX_IN];
    dag->n = 0;
    dag->failed = false;
    dag->no_dims = no_dims;
    for (int k = 0; k < info->n_in; k++) {
        values[k] = input_types[k] ? k : ZT_NONE;
        if (input_types[k]) dag->type[k] = *input_types[k];
    }
    for (int k = 0; k < ZT_MAX_OUT; k++) dag->out[k] = ZT_NONE;
    info->def->expand(&e, attrs, values, dag->out);
    bool good = !dag->failed && dag->n > 1;
    for (int k = 0; k < info->n_out; k++) good = good && dag->out[k] != -1;
    return good && dag->out[0] >= ZT_MAX_IN;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static size_t bytes_of(zt_attr_kind kind)
{
    static const size_t bytes[] = {
        [ZT_ATTR_i64] = sizeof(int64_t),   [ZT_ATTR_f64] = sizeof(double),
        [ZT_ATTR_word] = sizeof(zt_enum_string),  [ZT_ATTR_dims] = sizeof(zt_dims),
        [ZT_ATTR_ints] = sizeof(zt_ints),  [ZT_ATTR_str] = sizeof(char *),
        [ZT_ATTR_func] = sizeof(zt_func *),
    };
    return bytes[kind];
}

static bool field_same(const zt_attrdef *attribute, const void *x, const zt_attrdef *b, const void *y)
{
    const char *p = (const char *)x + attribute->offset, *q = (const char *)y + b->offset;
    if (attribute->kind != b->kind) return false;
    if (attribute->kind == ZT_ATTR_word) return !strncmp(p, q, sizeof(zt_enum_string));
    return !memcmp(p, q, bytes_of(attribute->kind));
}

/* Attributes of nodes that are equal to the fused one: those of its name, and, where it is not what
 * it is by default, others after them. */
static void find_sources(const zt_dag *dag, const zt_opinfo *fused, const zt_attrdef *attribute,
                         const void *attrs, zt_origin *origin)
{
    int last = field_same(attribute, attrs, attribute, fused->defaults) ? 1 : 0;
    origin->n = 0;
    for (int named = 1; named >= last; named--)
        for (int j = 0; j < dag->n; j++) {
            const zt_opinfo *info = zt_op_info(dag->node[j].op);
            for (int k = 0; k < info->n_attrs && origin->n < ZT_MAX_SOURCES; k++)
                if (named == !strcmp(info->attrs[k].name, attribute->name) &&
                    field_same(attribute, attrs, &info->attrs[k], dag->node[j].attrs))
                    origin->at[origin->n++] = (zt_source){(short)j, (short)k};
        }
}

/* What is left of g's sources when only those of `also` count; false: nothing. */
static bool narrow(zt_origin *origin, const zt_origin *also)
{
    int n = 0;
    for (int i = 0; i < origin->n; i++)
        for (int k = 0; k < also->n; k++)
            if (origin->at[i].node == also->at[k].node && origin->at[i].attr == also->at[k].attr) {
                origin->at[n++] = origin->at[i];
                break;
            }
    origin->n = n;
    return n > 0;
}

/* Is it the same graph, with the same constants; then its sources are narrowed. */
static bool joins(zt_pattern *p, const zt_dag *dag, zt_op op, const void *attrs, const zt_origin *origin)
{
    const zt_opinfo *info = zt_op_info(op);
    zt_origin both[ZT_MAX_ATTR_BYTES / 8];
    bool same = p->op == op && p->n == dag->n && !memcmp(p->out, dag->out, sizeof p->out);
    for (int j = 0; j < dag->n && same; j++)
        same = p->node[j] == dag->node[j].op && !memcmp(p->in[j], dag->node[j].in, sizeof p->in[j]);
    for (int k = 0; k < info->n_attrs && same; k++) {
        both[k] = p->gather[k];
        same = p->gather[k].n ? narrow(&both[k], &origin[k])
                              : field_same(&info->attrs[k], p->attrs, &info->attrs[k], attrs);
    }
    if (same) memcpy(p->gather, both, (size_t)info->n_attrs * sizeof *both);
    return same;
}

/* ---- the list -------------------------------------------------------------------------------- */

static unsigned sinks_of(const zt_dag *dag)
{
    unsigned read = 0;
    for (int j = 0; j < dag->n; j++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (dag->node[j].in[k] >= ZT_MAX_IN)
                read |= 1u << (dag->node[j].in[k] - ZT_MAX_IN) / ZT_MAX_OUT;
    return ((1u << dag->n) - 1) & ~read;
}

static bool fill(zt_arena *arena, zt_pattern *p, const zt_dag *dag, zt_op op, const void *attrs,
                 const zt_origin *origin, int order)
{
    const zt_opinfo *info = zt_op_info(op);
    size_t n_attrs = (size_t)info->n_attrs;
    *p = (zt_pattern){.op = op, .order = order, .n = dag->n, .sinks = sinks_of(dag)};
    memcpy(p->out, dag->out, sizeof p->out);
    for (int j = 0; j < dag->n; j++) {
        p->node[j] = dag->node[j].op;
        memcpy(p->in[j], dag->node[j].in, sizeof p->in[j]);
    }
    p->gather = zt_arena_alloc(arena, (n_attrs + 1) * sizeof *p->gather);
    p->attrs = zt_arena_alloc(arena, info->attr_bytes);
    if (!p->gather || !p->attrs) return false;
    memcpy(p->gather, origin, n_attrs * sizeof *origin);
    memcpy(p->attrs, attrs, info->attr_bytes);
    return true;
}

typedef struct maker {
    zt_arena *a;
    zt_dag *d, *idle; /* idle: scratch of drop_idle */
    zt_pattern *list;
    int n, cap;
} maker;

static zt_status add_pattern(maker *m, zt_op op, const void *attrs, const zt_origin *origin, int first)
{
    for (int i = first; i < m->n; i++)
        if (joins(&m->list[i], m->d, op, attrs, origin)) return ZT_OK;
    if (m->n == m->cap) {
        int cap = m->cap ? 2 * m->cap : 32;
        zt_pattern *more = zt_arena_alloc(m->a, (size_t)cap * sizeof *more);
        if (!more) return ZT_ENOMEM;
        if (m->n) memcpy(more, m->list, (size_t)m->n * sizeof *more);
        m->list = more;
        m->cap = cap;
    }
    m->n++;
    return fill(m->a, &m->list[m->n - 1], m->d, op, attrs, origin, m->n) ? ZT_OK : ZT_ENOMEM;
}

static bool dags_same(const zt_dag *a, const zt_dag *b)
{
    bool same = a->n == b->n && !memcmp(a->out, b->out, sizeof a->out);
    for (int j = 0; j < a->n && same; j++)
        same = a->node[j].op == b->node[j].op &&
               !memcmp(a->node[j].in, b->node[j].in, sizeof a->node[j].in) &&
               zt_attrs_same(a->node[j].op, a->node[j].attrs, b->node[j].attrs);
    return same;
}

/* Attributes that come from no node and change nothing (of a norm that is not there) become what
 * they are by default. */
static void drop_idle(maker *m, zt_op op, void *attrs, const zt_type *const input_types[],
                      const zt_origin *origin)
{
    const zt_opinfo *info = zt_op_info(op);
    int64_t plain[ZT_MAX_ATTR_BYTES / 8];
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *attribute = &info->attrs[k];
        if (origin[k].n || field_same(attribute, attrs, attribute, info->defaults)) continue;
        memcpy(plain, attrs, info->attr_bytes);
        memcpy((char *)plain + attribute->offset, (const char *)info->defaults + attribute->offset,
               bytes_of(attribute->kind));
        if (zt_dag_expand(m->idle, op, plain, input_types, true) && dags_same(m->d, m->idle))
            memcpy(attrs, plain, info->attr_bytes);
    }
}

static zt_status add_row(maker *m, zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    zt_origin g[ZT_MAX_ATTR_BYTES / 8];
    zt_case c;
    int first = m->n;
    zt_status status = ZT_OK;
    for (int i = 0; zt_op_case(op, i, &c) && !status; i++) {
        const zt_type *input_types[ZT_MAX_IN] = {0};
        for (int k = 0; k < info->n_in; k++)
            if (c.fill[k] != ZT_FILL_ABSENT) input_types[k] = &c.in[k];
        if (!zt_dag_expand(m->d, op, c.attrs, input_types, true)) continue;
        for (int k = 0; k < info->n_attrs; k++)
            find_sources(m->d, info, &info->attrs[k], c.attrs, &g[k]);
        drop_idle(m, op, c.attrs, input_types, g);
        status = add_pattern(m, op, c.attrs, g, first);
    }
    return status;
}

/* Of as many nodes: in the order of the table. */
static int by_size(const void *left, const void *right)
{
    const zt_pattern *x = left, *y = right;
    return x->n != y->n ? y->n - x->n : x->order - y->order;
}

zt_status zt_patterns_make(zt_arena *arena, zt_pattern **list, int *n)
{
    maker m = {.a = arena, .d = zt_arena_alloc(arena, sizeof *m.d), .idle = zt_arena_alloc(arena, sizeof *m.d)};
    zt_status status = m.d && m.idle ? ZT_OK : ZT_ENOMEM;
    for (int op = 0; op < ZT_OP_COUNT && !status; op++) {
        const zt_opdef *def = zt_op_info((zt_op)op)->def;
        if (def->expand && def->flags & ZT_OPF_SAME) status = add_row(&m, (zt_op)op);
    }
    if (m.n) qsort(m.list, (size_t)m.n, sizeof *m.list, by_size);
    *list = m.list;
    *n = m.n;
    return status;
}
