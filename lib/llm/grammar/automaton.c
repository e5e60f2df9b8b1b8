/* automaton.c - the states that a text can be in, made when they are first met.
 *
 * A state is what a pushdown automaton would hold, of all readings of the text at once: for each position that may
 * come next, a frame, which is the set of stacks on which that position lies. A frame is again a list of (position,
 * frame): where the rule's callers go on, and the frames below. Position 0 of frame 0 is the end of the text.
 *
 *     root ::= "[" list "]"         after "[[": positions {"[" of item, digit of item, "]" of item},
 *     list ::= item ("," item)*     all with the frame {("]" of item, {("," of list, {("]" of root, ...)})}, ...}
 *     item ::= "[" list "]" | [0-9]
 *
 * Lists are sorted by position and have each position once: two frames of one position are joined into one, whose
 * stacks are those of both. Lists are interned, so equal sets of stacks are one frame, and equal states one state. An
 * ambiguous grammar therefore needs no more items than it has positions.
 *
 * The last call of a rule leaves nothing on the stack: its callers are the rule's own callers. So lists and repetitions do not
 * make stacks grow, and a repetition comes back to the same state.
 *
 * When a state is made, rules are entered in the order of grules.order: all callers of a rule are known when it is entered.
 * Rules that derive the empty text are passed over at the place of the call, so their ends need not be followed here.
 */
#include "lib/llm/grammar/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 4000 }; /* of two frames that are joined */

typedef struct gcaller { /* of a rule: where it goes on after the rule */
    gitem item;
    uint32_t next; /* of the same rule; 0: none */
} gcaller;

typedef struct gunion_entry {
    uint32_t first, second, joined;
} gunion_entry;

typedef struct gunion {
    gunion_entry *entry;
    uint32_t mask, count;
} gunion;

typedef struct greached { /* the state in which only this item was reached */
    gitem item;
    int32_t state; /* STATE_DEAD: the entry is not used */
} greached;
enum { REACHED = 512 };

/* What is used while a state is made. */
typedef struct gwork {
    uint32_t *frame_at; /* [symbol_count]: one more than the frame that was met at a position; 0: none */
    uint32_t *touched;  /* positions of frame_at that are set */
    size_t touched_count;
    gitem *queue; /* positions that are reached after the byte */
    size_t queue_count, queue_capacity;
    gitem *ends; /* terminals and their frames: the new state */
    size_t ends_count, ends_capacity;
    uint32_t *end_at; /* [symbol_count]: one more than the index in ends; 0: none */
    gcaller *caller;  /* 1 .. */
    size_t caller_count, caller_capacity;
    uint32_t *callers_of; /* [rule_count]: index of the first caller; 0: none */
    uint32_t *heap;       /* [rule_count]: rules that are called, the first of the order on top */
    size_t heap_count;
    gitem *list; /* while lists are joined, as a stack */
    size_t list_count, list_capacity;
    bool complete;
    struct greached reached[REACHED]; /* the states after some items, by a hash of the item */
} gwork;

/* ---- memory ---------------------------------------------------------------------------------- */

static bool reserve_array(zt_ctx *ctx, void **array, size_t size, size_t count, size_t *capacity)
{
    if (count <= *capacity) return true;
    size_t wanted = 2 * *capacity > count ? 2 * *capacity : count + 64;
    void *grown = zt_realloc(ctx, *array, wanted * size);
    if (!grown) return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

static bool spend(gautomaton *automaton, uint64_t steps)
{
    if (automaton->steps >= steps) {
        automaton->steps -= steps;
        return true;
    }
    zt_fail(automaton->ctx, ZT_ENOMEM, "the grammar is too ambiguous: a token takes more than %d steps", MOST_STEPS);
    return false;
}

size_t zt_g_automaton_bytes(const gautomaton *automaton)
{
    const glist *const lists[] = {&automaton->frames, &automaton->states};
    size_t bytes = automaton->next_capacity * sizeof *automaton->next + automaton->states.capacity * sizeof(gstate);
    for (int i = 0; i < 2; i++)
        bytes += lists[i]->item_capacity * sizeof(gitem) + ((size_t)lists[i]->capacity + lists[i]->slot_mask) * sizeof(uint32_t);
    return bytes + automaton->unions->mask * sizeof(gunion_entry);
}

/* ---- interned lists -------------------------------------------------------------------------- */

static uint32_t hash_items(const gitem *items, size_t count)
{
    uint64_t hash = count * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ ((uint64_t)items[i].position << 32 | items[i].frame)) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return (uint32_t)(hash ^ hash >> 29);
}

static bool grow_slots(zt_ctx *ctx, glist *list)
{
    uint32_t size = 2 * (list->slot_mask + 1);
    uint32_t *slot = zt_calloc(ctx, size, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t at = hash_items(list->item + list->first[i], list->first[i + 1] - list->first[i]) & (size - 1);
        while (slot[at]) at = (at + 1) & (size - 1);
        slot[at] = i + 1;
    }
    zt_free(ctx, list->slot);
    list->slot = slot;
    list->slot_mask = size - 1;
    return true;
}

static bool init_list(zt_ctx *ctx, glist *list)
{
    enum { SLOTS = 256, LISTS = 128 };
    *list = (glist){.slot_mask = SLOTS - 1, .capacity = LISTS};
    list->slot = zt_calloc(ctx, SLOTS, sizeof *list->slot);
    list->first = zt_calloc(ctx, LISTS + 1, sizeof *list->first);
    return list->slot && list->first;
}

static void drop_list(zt_ctx *ctx, glist *list)
{
    zt_free(ctx, list->item);
    zt_free(ctx, list->first);
    zt_free(ctx, list->slot);
    *list = (glist){0};
}

/* The index of a list of items; made if it is new. UINT32_MAX: no memory. */
static uint32_t intern_list(gautomaton *automaton, glist *list, const gitem *items, size_t count)
{
    if (2 * ((size_t)list->count + 1) > list->slot_mask && !grow_slots(automaton->ctx, list)) return UINT32_MAX;
    uint32_t at = hash_items(items, count) & list->slot_mask;
    for (; list->slot[at]; at = (at + 1) & list->slot_mask) {
        uint32_t i = list->slot[at] - 1;
        if (list->first[i + 1] - list->first[i] == count &&
            (count == 0 || memcmp(list->item + list->first[i], items, count * sizeof *items) == 0))
            return i;
    }
    zt_ctx *ctx = automaton->ctx;
    if (list->count + 1 >= list->capacity) {
        uint32_t *first = zt_realloc(ctx, list->first, (2 * (size_t)list->capacity + 1) * sizeof *first);
        if (!first) return UINT32_MAX;
        list->first = first;
        list->capacity *= 2;
    }
    if (!reserve_array(ctx, (void **)&list->item, sizeof *items, list->item_count + count, &list->item_capacity))
        return UINT32_MAX;
    if (zt_g_automaton_bytes(automaton) > MOST_BYTES) {
        zt_fail(ctx, ZT_ENOMEM, "the grammar is too ambiguous: its states take more than %zu MiB", MOST_BYTES >> 20);
        return UINT32_MAX;
    }
    if (count) memcpy(list->item + list->item_count, items, count * sizeof *items);
    list->item_count += count;
    list->first[++list->count] = (uint32_t)list->item_count;
    list->slot[at] = list->count;
    return list->count - 1;
}

/* ---- joining frames -------------------------------------------------------------------------- */

static gunion_entry *find_union(const gunion *unions, uint32_t first, uint32_t second)
{
    uint64_t hash = ((uint64_t)first << 32 | second) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) & unions->mask;
    while (unions->entry[at].first != UINT32_MAX && (unions->entry[at].first != first || unions->entry[at].second != second))
        at = (at + 1) & unions->mask;
    return &unions->entry[at];
}

static bool clear_unions(zt_ctx *ctx, gunion *unions, uint32_t size)
{
    gunion_entry *entry = zt_alloc_array(ctx, size, sizeof *entry);
    if (!entry) return false;
    memset(entry, 0xff, size * sizeof *entry);
    zt_free(ctx, unions->entry);
    *unions = (gunion){.entry = entry, .mask = size - 1};
    return true;
}

static bool remember_union(gautomaton *automaton, gunion_entry made)
{
    gunion *unions = automaton->unions;
    if (2 * unions->count > unions->mask) { /* a cache: what it held can be made again */
        uint32_t size = 2 * (unions->mask + 1) < 1u << 20 ? 2 * (unions->mask + 1) : unions->mask + 1;
        if (!clear_unions(automaton->ctx, unions, size)) return false;
    }
    gunion_entry *entry = find_union(unions, made.first, made.second);
    unions->count += entry->first == UINT32_MAX;
    *entry = made;
    return true;
}

/* The frame of the stacks of both. UINT32_MAX: an error. */
static uint32_t join_frames(gautomaton *automaton, uint32_t first, uint32_t second, int depth);

/* Appends the join of two lists to work->list, which may move: lists are read by index. */
static bool join_lists(gautomaton *automaton, uint32_t first, uint32_t second, int depth)
{
    gwork *work = automaton->work;
    const glist *frames = &automaton->frames;
    uint32_t i = frames->first[first], j = frames->first[second];
    const uint32_t first_end = frames->first[first + 1], second_end = frames->first[second + 1];
    if (!spend(automaton, first_end - i + second_end - j + 1)) return false;
    while (i < first_end || j < second_end) {
        gitem left = i < first_end ? frames->item[i] : (gitem){UINT32_MAX, 0};
        gitem right = j < second_end ? frames->item[j] : (gitem){UINT32_MAX, 0};
        gitem item = left.position <= right.position ? left : right;
        i += left.position <= right.position;
        j += right.position <= left.position;
        if (left.position == right.position) item.frame = join_frames(automaton, left.frame, right.frame, depth + 1);
        if (item.frame == UINT32_MAX) return false;
        if (!reserve_array(automaton->ctx, (void **)&work->list, sizeof item, work->list_count + 1, &work->list_capacity))
            return false;
        work->list[work->list_count++] = item;
    }
    return true;
}

static uint32_t join_frames(gautomaton *automaton, uint32_t first, uint32_t second, int depth)
{
    if (first == second) return first;
    if (first > second) return join_frames(automaton, second, first, depth);
    gunion_entry *known = find_union(automaton->unions, first, second);
    if (known->first != UINT32_MAX) return known->joined;
    if (depth > MOST_DEPTH) {
        zt_fail(automaton->ctx, ZT_ENOMEM, "the text nests more than %d deep in an ambiguous grammar", MOST_DEPTH);
        return UINT32_MAX;
    }
    gwork *work = automaton->work;
    size_t begin = work->list_count;
    uint32_t joined = UINT32_MAX;
    if (join_lists(automaton, first, second, depth))
        joined = intern_list(automaton, &automaton->frames, work->list + begin, work->list_count - begin);
    work->list_count = begin;
    if (joined != UINT32_MAX && !remember_union(automaton, (gunion_entry){first, second, joined})) return UINT32_MAX;
    return joined;
}

/* ---- a new state ----------------------------------------------------------------------------- */

static gsymbol symbol_at(const gautomaton *automaton, uint32_t position) { return automaton->rules->symbol[position]; }

/* A position is reached with this frame, after the byte. */
static bool reach_position(gautomaton *automaton, gitem item)
{
    gwork *work = automaton->work;
    uint32_t *met = &work->frame_at[item.position], joined = item.frame;
    if (*met) {
        joined = join_frames(automaton, *met - 1, item.frame, 0);
        if (joined == UINT32_MAX) return false;
        if (joined == *met - 1) return true;
    } else {
        work->touched[work->touched_count++] = item.position;
    }
    *met = joined + 1;
    if (!reserve_array(automaton->ctx, (void **)&work->queue, sizeof item, work->queue_count + 1, &work->queue_capacity))
        return false;
    work->queue[work->queue_count++] = item;
    return true;
}

/* A set of bytes may come next. */
static bool add_end(gautomaton *automaton, gitem item)
{
    gwork *work = automaton->work;
    uint32_t *index = &work->end_at[item.position];
    if (*index) {
        uint32_t *frame = &work->ends[*index - 1].frame;
        uint32_t joined = join_frames(automaton, *frame, item.frame, 0);
        work->ends[*index - 1].frame = joined;
        return joined != UINT32_MAX;
    }
    if (!reserve_array(automaton->ctx, (void **)&work->ends, sizeof item, work->ends_count + 1, &work->ends_capacity))
        return false;
    work->ends[work->ends_count++] = item;
    *index = (uint32_t)work->ends_count;
    return true;
}

static void push_rule(gautomaton *automaton, uint32_t rule)
{
    gwork *work = automaton->work;
    const uint32_t *order = automaton->rules->order;
    size_t at = work->heap_count++;
    for (; at && order[work->heap[(at - 1) / 2]] > order[rule]; at = (at - 1) / 2) work->heap[at] = work->heap[(at - 1) / 2];
    work->heap[at] = rule;
}

static uint32_t pop_rule(gautomaton *automaton)
{
    gwork *work = automaton->work;
    const uint32_t *order = automaton->rules->order;
    uint32_t top = work->heap[0], last = work->heap[--work->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < work->heap_count; at = child) {
        if (child + 1 < work->heap_count && order[work->heap[child + 1]] < order[work->heap[child]]) child++;
        if (order[work->heap[child]] >= order[last]) break;
        work->heap[at] = work->heap[child];
    }
    work->heap[at] = last;
    return top;
}

static bool add_caller(gautomaton *automaton, uint32_t rule, gitem item)
{
    gwork *work = automaton->work;
    if (!reserve_array(automaton->ctx, (void **)&work->caller, sizeof *work->caller, work->caller_count + 2,
                       &work->caller_capacity))
        return false;
    if (!work->callers_of[rule]) push_rule(automaton, rule);
    work->caller[++work->caller_count] = (gcaller){item, work->callers_of[rule]};
    work->callers_of[rule] = (uint32_t)work->caller_count;
    return true;
}

/* The call at a position: what follows it is the caller, or, if nothing does, the callers in the frame are. */
static bool call_rule(gautomaton *automaton, gitem item)
{
    const glist *frames = &automaton->frames;
    uint32_t rule = SYMBOL_INDEX(symbol_at(automaton, item.position));
    if (symbol_at(automaton, item.position + 1) != SYMBOL_END)
        return add_caller(automaton, rule, (gitem){item.position + 1, item.frame});
    for (uint32_t i = frames->first[item.frame]; i < frames->first[item.frame + 1]; i++)
        if (!add_caller(automaton, rule, frames->item[i])) return false;
    return spend(automaton, frames->first[item.frame + 1] - frames->first[item.frame]);
}

/* From a position that was reached: past ends, into the callers; calls are noted. */
static bool follow_position(gautomaton *automaton, gitem item)
{
    gsymbol symbol = symbol_at(automaton, item.position);
    const glist *frames = &automaton->frames;
    if (!spend(automaton, 1)) return false;
    if ((symbol & SYMBOL_KIND) == SYMBOL_SET) return add_end(automaton, item);
    if ((symbol & SYMBOL_KIND) == SYMBOL_RULE) {
        if (!call_rule(automaton, item)) return false;
        return !automaton->rules->nullable[SYMBOL_INDEX(symbol)] ||
               reach_position(automaton, (gitem){item.position + 1, item.frame});
    }
    for (uint32_t i = frames->first[item.frame]; i < frames->first[item.frame + 1]; i++) {
        if (frames->item[i].position == UINT32_MAX)
            automaton->work->complete = true;
        else if (!reach_position(automaton, frames->item[i]))
            return false;
    }
    return true;
}

static int compare_items(const void *first, const void *second)
{
    const gitem *left = first, *right = second;
    return (left->position > right->position) - (left->position < right->position);
}

static void sort_items(gitem *items, size_t count)
{
    enum { FEW = 32 };
    if (count > FEW) {
        qsort(items, count, sizeof *items, compare_items);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        gitem item = items[i];
        size_t at = i;
        for (; at && items[at - 1].position > item.position; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

/* The frame of a rule's callers. */
static uint32_t frame_of_callers(gautomaton *automaton, uint32_t rule)
{
    gwork *work = automaton->work;
    size_t begin = work->list_count, kept = begin;
    uint32_t first = work->callers_of[rule];
    work->callers_of[rule] = 0;
    for (uint32_t i = first; i; i = work->caller[i].next) {
        if (!reserve_array(automaton->ctx, (void **)&work->list, sizeof *work->list, work->list_count + 1, &work->list_capacity))
            return UINT32_MAX;
        work->list[work->list_count++] = work->caller[i].item;
    }
    if (work->list_count - begin > 1) sort_items(work->list + begin, work->list_count - begin);
    size_t count = work->list_count;
    for (size_t i = begin; i < count; i++) {
        gitem item = work->list[i];
        if (kept > begin && work->list[kept - 1].position == item.position) {
            uint32_t joined = join_frames(automaton, work->list[kept - 1].frame, item.frame, 0);
            if (joined == UINT32_MAX) return UINT32_MAX;
            work->list[kept - 1].frame = joined;
        } else {
            work->list[kept++] = item;
        }
    }
    uint32_t frame = intern_list(automaton, &automaton->frames, work->list + begin, kept - begin);
    work->list_count = begin;
    return frame;
}

/* From the beginning of a rule's alternatives to what may come first. */
static bool enter_rule(gautomaton *automaton, uint32_t rule)
{
    const grules *rules = automaton->rules;
    uint32_t frame = frame_of_callers(automaton, rule);
    if (frame == UINT32_MAX) return false;
    for (uint32_t i = rules->body[rule].first; i < rules->body[rule].end; i++)
        for (uint32_t position = rules->alternative[i]; rules->symbol[position] != SYMBOL_END; position++) {
            gsymbol symbol = rules->symbol[position];
            if (!spend(automaton, 1)) return false;
            if ((symbol & SYMBOL_KIND) == SYMBOL_SET) {
                if (!add_end(automaton, (gitem){position, frame})) return false;
                break;
            }
            bool itself = SYMBOL_INDEX(symbol) == rule && rules->symbol[position + 1] == SYMBOL_END;
            if (!itself && !call_rule(automaton, (gitem){position, frame})) return false;
            if (!rules->nullable[SYMBOL_INDEX(symbol)]) break;
        }
    return true;
}

/* Forgets what a state was made of, also after an error half way. */
static void clear_work(gautomaton *automaton)
{
    gwork *work = automaton->work;
    for (size_t i = 0; i < work->touched_count; i++) work->frame_at[work->touched[i]] = 0;
    for (size_t i = 0; i < work->ends_count; i++) work->end_at[work->ends[i].position] = 0;
    while (work->heap_count) work->callers_of[work->heap[--work->heap_count]] = 0;
    work->touched_count = work->queue_count = work->ends_count = work->caller_count = work->list_count = 0;
    work->complete = false;
}

static bool make_room_for_state(gautomaton *automaton)
{
    size_t classes = automaton->rules->class_count, wanted = ((size_t)automaton->states.count + 1) * classes;
    if (wanted > automaton->next_capacity) {
        size_t capacity = 2 * wanted + 64 * classes;
        int32_t *next = zt_realloc(automaton->ctx, automaton->next, capacity * sizeof *next);
        if (!next) return false;
        automaton->next = next;
        automaton->next_capacity = capacity;
        gstate *state = zt_realloc(automaton->ctx, automaton->state, (capacity / classes + 1) * sizeof *state);
        if (!state) return false;
        automaton->state = state;
    }
    return true;
}

/* The bytes that the items allow, and the classes of these bytes. */
static gset live_bytes(const gautomaton *automaton, const gitem *items, size_t count, gset *classes)
{
    gset bytes = {{0}};
    for (size_t i = 0; i < count; i++) {
        if (items[i].position == UINT32_MAX) continue;
        uint32_t set = SYMBOL_INDEX(symbol_at(automaton, items[i].position));
        zt_g_set_join(&bytes, &automaton->rules->set_bytes[set]);
        zt_g_set_join(classes, &automaton->rules->set[set]);
    }
    return bytes;
}

/* The number of the state with these items, which are sorted. */
static int32_t number_state(gautomaton *automaton, const gitem *items, size_t count, bool complete)
{
    uint32_t before = automaton->states.count;
    if (!make_room_for_state(automaton)) return -1;
    uint32_t index = intern_list(automaton, &automaton->states, items, count);
    if (index == UINT32_MAX || index > INT32_MAX) return -1;
    if (index < before) return (int32_t)index;
    gset live = {{0}};
    unsigned classes = automaton->rules->class_count;
    automaton->state[index] = (gstate){.mask = -1, .run_next = STATE_UNKNOWN, .complete = complete};
    automaton->state[index].live = live_bytes(automaton, items, count, &live);
    for (unsigned i = 0; i < classes; i++)
        automaton->next[(size_t)index * classes + i] = zt_g_set_has(&live, i) ? STATE_UNKNOWN : STATE_DEAD;
    return (int32_t)index;
}

/* Makes the state that the positions in the queue lead to. A state in which the text may end has one more item, so that it is
 * another list than one without. */
static int32_t make_state(gautomaton *automaton)
{
    gwork *work = automaton->work;
    bool made = true;
    for (size_t i = 0; i < work->queue_count && made; i++) made = follow_position(automaton, work->queue[i]);
    while (made && work->heap_count) made = enter_rule(automaton, pop_rule(automaton));
    if (made && work->ends_count > 1) sort_items(work->ends, work->ends_count);
    size_t count = work->ends_count;
    if (made && work->complete)
        made = reserve_array(automaton->ctx, (void **)&work->ends, sizeof *work->ends, count + 1, &work->ends_capacity);
    if (made && work->complete) work->ends[count] = (gitem){UINT32_MAX, 0};
    int32_t state = made ? number_state(automaton, work->ends, count + work->complete, work->complete) : -1;
    clear_work(automaton);
    return state;
}

/* The state that the queue leads to: most bytes reach one item, and many bytes the same. */
static int32_t state_of_queue(gautomaton *automaton)
{
    gwork *work = automaton->work;
    gitem item = work->queue_count == 1 ? work->queue[0] : (gitem){0};
    greached *reached = &work->reached[hash_items(&item, 1) % REACHED];
    if (work->queue_count != 1) return make_state(automaton);
    if (reached->state != STATE_DEAD && reached->item.position == item.position && reached->item.frame == item.frame) {
        clear_work(automaton);
        return reached->state;
    }
    int32_t state = make_state(automaton);
    if (state >= 0) *reached = (greached){item, state};
    return state;
}

int32_t zt_g_automaton_step(gautomaton *automaton, int32_t state, unsigned byte_class)
{
    const glist *states = &automaton->states;
    bool made = true;
    for (uint32_t i = states->first[state]; i < states->first[state + 1] && made; i++) {
        gitem item = states->item[i];
        if (item.position == UINT32_MAX) continue;
        const gset *set = &automaton->rules->set[SYMBOL_INDEX(symbol_at(automaton, item.position))];
        if (zt_g_set_has(set, byte_class)) made = reach_position(automaton, (gitem){item.position + 1, item.frame});
    }
    made = made && spend(automaton, 1 + (states->first[state + 1] - states->first[state]) / 8);
    int32_t next = made ? state_of_queue(automaton) : -1;
    if (!made) clear_work(automaton);
    if (next >= 0) automaton->next[(size_t)state * automaton->rules->class_count + byte_class] = next;
    return next;
}

/* ---- begin, restart, end --------------------------------------------------------------------- */

/* The frames 0 (nothing below: the end of the text) and the states DEAD and start. */
static bool make_first(gautomaton *automaton)
{
    gitem end = {UINT32_MAX, 0};
    automaton->steps = MOST_STEPS;
    bool made =
        init_list(automaton->ctx, &automaton->frames) && init_list(automaton->ctx, &automaton->states) &&
        clear_unions(automaton->ctx, automaton->unions, 1024) && intern_list(automaton, &automaton->frames, &end, 1) == 0 &&
        number_state(automaton, NULL, 0, false) == STATE_DEAD && reach_position(automaton, (gitem){automaton->rules->start, 0});
    automaton->start = made ? make_state(automaton) : -1;
    if (!made) clear_work(automaton);
    return automaton->start >= 0;
}

void zt_g_automaton_free(gautomaton *automaton)
{
    if (!automaton) return;
    zt_ctx *ctx = automaton->ctx;
    gwork *work = automaton->work;
    void *const blocks[] = {work ? work->frame_at : NULL,   work ? work->touched : NULL,
                            work ? work->queue : NULL,      work ? work->ends : NULL,
                            work ? work->end_at : NULL,     work ? work->caller : NULL,
                            work ? work->callers_of : NULL, work ? work->heap : NULL,
                            work ? work->list : NULL,       automaton->unions ? automaton->unions->entry : NULL};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) zt_free(ctx, blocks[i]);
    zt_free(ctx, automaton->work);
    zt_free(ctx, automaton->unions);
    drop_list(ctx, &automaton->frames);
    drop_list(ctx, &automaton->states);
    zt_free(ctx, automaton->state);
    zt_free(ctx, automaton->next);
    zt_free(ctx, automaton);
}

gautomaton *zt_g_automaton_new(zt_ctx *ctx, const grules *rules)
{
    gautomaton *automaton = zt_calloc(ctx, 1, sizeof *automaton);
    if (!automaton) return NULL;
    *automaton = (gautomaton){.ctx = ctx, .rules = rules};
    automaton->unions = zt_calloc(ctx, 1, sizeof *automaton->unions);
    gwork *work = automaton->work = zt_calloc(ctx, 1, sizeof *work);
    if (work) {
        work->frame_at = zt_calloc(ctx, rules->symbol_count, sizeof *work->frame_at);
        work->touched = zt_alloc_array(ctx, rules->symbol_count, sizeof *work->touched);
        work->end_at = zt_calloc(ctx, rules->symbol_count, sizeof *work->end_at);
        work->callers_of = zt_calloc(ctx, rules->rule_count, sizeof *work->callers_of);
        work->heap = zt_alloc_array(ctx, rules->rule_count, sizeof *work->heap);
    }
    if (automaton->unions && work && work->frame_at && work->touched && work->end_at && work->callers_of && work->heap &&
        make_first(automaton))
        return automaton;
    zt_g_automaton_free(automaton);
    return NULL;
}

/* Copies the frames that are marked from `old`, whose frames come after those that they hold; frame i becomes renamed[i]. */
static bool copy_frames(gautomaton *automaton, const glist *old, uint32_t *renamed)
{
    gwork *work = automaton->work;
    for (uint32_t frame = 0; frame < old->count; frame++) {
        size_t count = old->first[frame + 1] - old->first[frame];
        if (renamed[frame] == UINT32_MAX) continue;
        if (!reserve_array(automaton->ctx, (void **)&work->list, sizeof *work->list, count, &work->list_capacity)) return false;
        for (size_t i = 0; i < count; i++) {
            work->list[i] = old->item[old->first[frame] + i];
            if (work->list[i].position != UINT32_MAX) work->list[i].frame = renamed[work->list[i].frame];
        }
        renamed[frame] = intern_list(automaton, &automaton->frames, work->list, count);
        if (renamed[frame] == UINT32_MAX) return false;
    }
    return true;
}

static zt_status copy_states(gautomaton *automaton, const glist *frames, const glist *states, const gstate *old, int32_t *kept,
                             size_t kept_count)
{
    gwork *work = automaton->work;
    uint32_t *renamed = zt_alloc_array(automaton->ctx, frames->count, sizeof *renamed);
    if (!renamed) return ZT_ENOMEM;
    memset(renamed, 0xff, frames->count * sizeof *renamed);
    for (size_t i = 0; i < kept_count; i++)
        for (uint32_t j = states->first[kept[i]]; j < states->first[kept[i] + 1]; j++)
            if (states->item[j].position != UINT32_MAX) renamed[states->item[j].frame] = 0;
    for (uint32_t frame = frames->count; frame-- > 0;)
        for (uint32_t j = frames->first[frame]; renamed[frame] == 0 && j < frames->first[frame + 1]; j++)
            if (frames->item[j].position != UINT32_MAX) renamed[frames->item[j].frame] = 0;
    bool made = copy_frames(automaton, frames, renamed);
    for (size_t i = 0; i < kept_count && made; i++) {
        uint32_t first = states->first[kept[i]], count = states->first[kept[i] + 1] - first;
        made = reserve_array(automaton->ctx, (void **)&work->list, sizeof *work->list, count, &work->list_capacity);
        for (uint32_t j = 0; j < count && made; j++) {
            work->list[j] = states->item[first + j];
            if (work->list[j].position != UINT32_MAX) work->list[j].frame = renamed[work->list[j].frame];
        }
        int32_t state = made ? number_state(automaton, work->list, count, old[kept[i]].complete) : -1;
        made = state >= 0;
        kept[i] = state;
    }
    zt_free(automaton->ctx, renamed);
    return made ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_g_automaton_restart(gautomaton *automaton, int32_t *kept, size_t count)
{
    zt_ctx *ctx = automaton->ctx;
    glist frames = automaton->frames, states = automaton->states;
    gstate *old = automaton->state;
    memset(automaton->work->reached, 0, sizeof automaton->work->reached);
    automaton->frames = automaton->states = (glist){0};
    automaton->state = NULL;
    zt_free(ctx, automaton->next);
    automaton->next = NULL;
    automaton->next_capacity = 0;
    zt_status status = make_first(automaton) ? copy_states(automaton, &frames, &states, old, kept, count) : ZT_ENOMEM;
    drop_list(ctx, &frames);
    drop_list(ctx, &states);
    zt_free(ctx, old);
    return status;
}
