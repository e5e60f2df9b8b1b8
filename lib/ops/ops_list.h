/* ops_list.h - macros that take the lists of ops.def apart.
 *
 * An OP(name, ins, outs, attrs) macro pastes its arguments: where ins is IN2(a, b), ZT_NAMES_##ins is
 * ZT_NAMES_IN2(a, b), which is "a", "b". Nothing here is called by other names; ops.h, prog.h and run.h declare
 * their functions by it, one an op.
 */
#ifndef ZT_OPS_LIST_H
#define ZT_OPS_LIST_H

/* How many inputs, outputs: 3. */
#define ZT_COUNT_IN1(a)                                   1
#define ZT_COUNT_IN2(a, b)                                2
#define ZT_COUNT_IN3(a, b, c)                             3
#define ZT_COUNT_IN4(a, b, c, d)                          4
#define ZT_COUNT_IN5(a, b, c, d, e)                       5
#define ZT_COUNT_IN6(a, b, c, d, e, f)                    6
#define ZT_COUNT_IN7(a, b, c, d, e, f, g)                 7
#define ZT_COUNT_IN8(a, b, c, d, e, f, g, h)              8
#define ZT_COUNT_IN9(a, b, c, d, e, f, g, h, i)           9
#define ZT_COUNT_IN10(a, b, c, d, e, f, g, h, i, j)       10
#define ZT_COUNT_IN11(a, b, c, d, e, f, g, h, i, j, k)    11
#define ZT_COUNT_IN12(a, b, c, d, e, f, g, h, i, j, k, l) 12
#define ZT_COUNT_OUT1(a)                                  1
#define ZT_COUNT_OUT2(a, b)                               2
#define ZT_COUNT_OUT3(a, b, c)                            3
#define ZT_COUNT_OUT4(a, b, c, d)                         4
#define ZT_COUNT_OUT5(a, b, c, d, e)                      5
#define ZT_COUNT_OUT6(a, b, c, d, e, f)                   6
#define ZT_COUNT_OUT7(a, b, c, d, e, f, g)                7

/* Their names as strings: "a", "b". */
#define ZT_NAMES_IN1(a)                                   #a
#define ZT_NAMES_IN2(a, b)                                #a, #b
#define ZT_NAMES_IN3(a, b, c)                             #a, #b, #c
#define ZT_NAMES_IN4(a, b, c, d)                          #a, #b, #c, #d
#define ZT_NAMES_IN5(a, b, c, d, e)                       #a, #b, #c, #d, #e
#define ZT_NAMES_IN6(a, b, c, d, e, f)                    #a, #b, #c, #d, #e, #f
#define ZT_NAMES_IN7(a, b, c, d, e, f, g)                 #a, #b, #c, #d, #e, #f, #g
#define ZT_NAMES_IN8(a, b, c, d, e, f, g, h)              #a, #b, #c, #d, #e, #f, #g, #h
#define ZT_NAMES_IN9(a, b, c, d, e, f, g, h, i)           #a, #b, #c, #d, #e, #f, #g, #h, #i
#define ZT_NAMES_IN10(a, b, c, d, e, f, g, h, i, j)       #a, #b, #c, #d, #e, #f, #g, #h, #i, #j
#define ZT_NAMES_IN11(a, b, c, d, e, f, g, h, i, j, k)    #a, #b, #c, #d, #e, #f, #g, #h, #i, #j, #k
#define ZT_NAMES_IN12(a, b, c, d, e, f, g, h, i, j, k, l) #a, #b, #c, #d, #e, #f, #g, #h, #i, #j, #k, #l
#define ZT_NAMES_OUT1(a)                                  #a
#define ZT_NAMES_OUT2(a, b)                               #a, #b
#define ZT_NAMES_OUT3(a, b, c)                            #a, #b, #c
#define ZT_NAMES_OUT4(a, b, c, d)                         #a, #b, #c, #d
#define ZT_NAMES_OUT5(a, b, c, d, e)                      #a, #b, #c, #d, #e
#define ZT_NAMES_OUT6(a, b, c, d, e, f)                   #a, #b, #c, #d, #e, #f
#define ZT_NAMES_OUT7(a, b, c, d, e, f, g)                #a, #b, #c, #d, #e, #f, #g

/* Parameters of a function that builds the op, by value numbers: `, int a, int b`; for the outputs after the
 * first `, int *y2`; for the attributes `, const zt_rope_attrs *attrs`, or nothing where there are none. */
#define ZT_EMIT_IN1(a)                                   , int a
#define ZT_EMIT_IN2(a, b)                                , int a, int b
#define ZT_EMIT_IN3(a, b, c)                             , int a, int b, int c
#define ZT_EMIT_IN4(a, b, c, d)                          , int a, int b, int c, int d
#define ZT_EMIT_IN5(a, b, c, d, e)                       , int a, int b, int c, int d, int e
#define ZT_EMIT_IN6(a, b, c, d, e, f)                    , int a, int b, int c, int d, int e, int f
#define ZT_EMIT_IN7(a, b, c, d, e, f, g)                 , int a, int b, int c, int d, int e, int f, int g
#define ZT_EMIT_IN8(a, b, c, d, e, f, g, h)              , int a, int b, int c, int d, int e, int f, int g, int h
#define ZT_EMIT_IN9(a, b, c, d, e, f, g, h, i)           ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i
#define ZT_EMIT_IN10(a, b, c, d, e, f, g, h, i, j)       ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j
#define ZT_EMIT_IN11(a, b, c, d, e, f, g, h, i, j, k)    ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j, int k
#define ZT_EMIT_IN12(a, b, c, d, e, f, g, h, i, j, k, l) ZT_EMIT_IN8(a, b, c, d, e, f, g, h), int i, int j, int k, int l
#define ZT_EMIT_OUT1(a)
#define ZT_EMIT_OUT2(a, b)                , int *b
#define ZT_EMIT_OUT3(a, b, c)             , int *b, int *c
#define ZT_EMIT_OUT4(a, b, c, d)          , int *b, int *c, int *d
#define ZT_EMIT_OUT5(a, b, c, d, e)       , int *b, int *c, int *d, int *e
#define ZT_EMIT_OUT6(a, b, c, d, e, f)    , int *b, int *c, int *d, int *e, int *f
#define ZT_EMIT_OUT7(a, b, c, d, e, f, g) , int *b, int *c, int *d, int *e, int *f, int *g
#define ZT_PARAM_NONE(op)
#define ZT_PARAM_SOME(op)    , const zt_##op##_attrs *attrs
#define ZT_PARAM_ATTR0       ZT_PARAM_NONE
#define ZT_PARAM_ATTR1(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR2(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR3(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR4(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR5(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR6(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR7(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR8(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR9(...)  ZT_PARAM_SOME
#define ZT_PARAM_ATTR10(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR11(...) ZT_PARAM_SOME
#define ZT_PARAM_ATTR12(...) ZT_PARAM_SOME

/* What such a function passes on: the inputs, NULL and the pointers of the outputs after the first, the
 * attributes or NULL. */
#define ZT_ARGS_IN1(a)                                   a
#define ZT_ARGS_IN2(a, b)                                a, b
#define ZT_ARGS_IN3(a, b, c)                             a, b, c
#define ZT_ARGS_IN4(a, b, c, d)                          a, b, c, d
#define ZT_ARGS_IN5(a, b, c, d, e)                       a, b, c, d, e
#define ZT_ARGS_IN6(a, b, c, d, e, f)                    a, b, c, d, e, f
#define ZT_ARGS_IN7(a, b, c, d, e, f, g)                 a, b, c, d, e, f, g
#define ZT_ARGS_IN8(a, b, c, d, e, f, g, h)              a, b, c, d, e, f, g, h
#define ZT_ARGS_IN9(a, b, c, d, e, f, g, h, i)           a, b, c, d, e, f, g, h, i
#define ZT_ARGS_IN10(a, b, c, d, e, f, g, h, i, j)       a, b, c, d, e, f, g, h, i, j
#define ZT_ARGS_IN11(a, b, c, d, e, f, g, h, i, j, k)    a, b, c, d, e, f, g, h, i, j, k
#define ZT_ARGS_IN12(a, b, c, d, e, f, g, h, i, j, k, l) a, b, c, d, e, f, g, h, i, j, k, l
#define ZT_MORE_OUT1(a)                                  NULL
#define ZT_MORE_OUT2(a, b)                               NULL, b
#define ZT_MORE_OUT3(a, b, c)                            NULL, b, c
#define ZT_MORE_OUT4(a, b, c, d)                         NULL, b, c, d
#define ZT_MORE_OUT5(a, b, c, d, e)                      NULL, b, c, d, e
#define ZT_MORE_OUT6(a, b, c, d, e, f)                   NULL, b, c, d, e, f
#define ZT_MORE_OUT7(a, b, c, d, e, f, g)                NULL, b, c, d, e, f, g
#define ZT_ATTRS_ATTR0                                   NULL
#define ZT_ATTRS_ATTR1(...)                              attrs
#define ZT_ATTRS_ATTR2(...)                              attrs
#define ZT_ATTRS_ATTR3(...)                              attrs
#define ZT_ATTRS_ATTR4(...)                              attrs
#define ZT_ATTRS_ATTR5(...)                              attrs
#define ZT_ATTRS_ATTR6(...)                              attrs
#define ZT_ATTRS_ATTR7(...)                              attrs
#define ZT_ATTRS_ATTR8(...)                              attrs
#define ZT_ATTRS_ATTR9(...)                              attrs
#define ZT_ATTRS_ATTR10(...)                             attrs
#define ZT_ATTRS_ATTR11(...)                             attrs
#define ZT_ATTRS_ATTR12(...)                             attrs

/* M(kind, name, default) for every attribute of a list, in order. */
#define ZT_EACH1(M, k, n, d)       M(k, n, d)
#define ZT_EACH2(M, k, n, d, ...)  M(k, n, d) ZT_EACH1(M, __VA_ARGS__)
#define ZT_EACH3(M, k, n, d, ...)  M(k, n, d) ZT_EACH2(M, __VA_ARGS__)
#define ZT_EACH4(M, k, n, d, ...)  M(k, n, d) ZT_EACH3(M, __VA_ARGS__)
#define ZT_EACH5(M, k, n, d, ...)  M(k, n, d) ZT_EACH4(M, __VA_ARGS__)
#define ZT_EACH6(M, k, n, d, ...)  M(k, n, d) ZT_EACH5(M, __VA_ARGS__)
#define ZT_EACH7(M, k, n, d, ...)  M(k, n, d) ZT_EACH6(M, __VA_ARGS__)
#define ZT_EACH8(M, k, n, d, ...)  M(k, n, d) ZT_EACH7(M, __VA_ARGS__)
#define ZT_EACH9(M, k, n, d, ...)  M(k, n, d) ZT_EACH8(M, __VA_ARGS__)
#define ZT_EACH10(M, k, n, d, ...) M(k, n, d) ZT_EACH9(M, __VA_ARGS__)
#define ZT_EACH11(M, k, n, d, ...) M(k, n, d) ZT_EACH10(M, __VA_ARGS__)
#define ZT_EACH12(M, k, n, d, ...) M(k, n, d) ZT_EACH11(M, __VA_ARGS__)

/* Members of the attribute struct: `zt_attr_f64 theta;`. */
#define ZT_FIELD(k, n, d)     zt_attr_##k n;
#define ZT_FIELDS_ATTR0       char none;
#define ZT_FIELDS_ATTR1(...)  ZT_EACH1(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR2(...)  ZT_EACH2(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR3(...)  ZT_EACH3(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR4(...)  ZT_EACH4(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR5(...)  ZT_EACH5(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR6(...)  ZT_EACH6(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR7(...)  ZT_EACH7(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR8(...)  ZT_EACH8(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR9(...)  ZT_EACH9(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR10(...) ZT_EACH10(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR11(...) ZT_EACH11(ZT_FIELD, __VA_ARGS__)
#define ZT_FIELDS_ATTR12(...) ZT_EACH12(ZT_FIELD, __VA_ARGS__)

#endif
