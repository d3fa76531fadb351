"""The PTX emulator: executes PTX warp by warp, counts on SASS.

``ptx`` parses, ``flow`` finds basic blocks and where they reconverge, ``opcodes`` says what each data
instruction computes, ``memory`` holds the address spaces, ``machine`` runs warps in batches,
``counting`` turns addresses into hardware counts, ``attribution`` corrects them by the SASS.
"""
