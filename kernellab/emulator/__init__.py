"""The PTX emulator: executes PTX warp by warp, counts on SASS.

``ptx`` parses, ``flow`` finds basic blocks and where they reconverge, ``opcodes`` says what each data
instruction computes, ``memory`` holds the address spaces, ``machine`` runs warps in batches,
``counting`` turns addresses into hardware counts, ``attribution`` corrects them by the SASS.

What is asynchronous is ``in_flight`` from its issue to the wait for it: ``async_copy``, ``bulk_copies`` with
``tiles`` of tensor maps, ``mbarriers`` on which they complete, ``wgmma`` with the accumulators that
``warpgroups`` watch; ``landings`` know which warps have waited, ``proxies`` look for missing fences, ``clusters``
join blocks.
"""
