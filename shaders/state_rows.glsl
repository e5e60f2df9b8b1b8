// state_rows.glsl - where rows of a recurrence begin and where their states go (zt_state_start of lib/ops/ops.h). An
// invocation has its own part of the states and goes through all rows in order, so that a row that starts from a slot
// reads what the rows before it stored there. The shader that includes this defines FROM and TO, the operands, and SLOTS, the word
// that has the number of slots.
const int STATE_ZEROS = -1, STATE_CONTINUED = -2;

// Slot, STATE_ZEROS or STATE_CONTINUED of row r. tells: out of range is reported.
int start_of(uint r, bool tells)
{
    int slot = Ints(call.at[FROM]).v[r];
    if (slot < whole(SLOTS) && slot >= (r > 0u ? STATE_CONTINUED : STATE_ZEROS)) return slot;
    if (tells) trouble(BAD_STATE, slot, whole(SLOTS), r, 0u);
    return STATE_ZEROS;
}

// Slot of row r, or -1.
int end_of(uint r, bool tells)
{
    int slot = Ints(call.at[TO]).v[r];
    if (slot < whole(SLOTS) && slot >= -1) return slot;
    if (tells) trouble(BAD_STATE, slot, whole(SLOTS), r, 1u);
    return -1;
}
