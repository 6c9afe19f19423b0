"""The turnstile: a bound inside, a bound before it, in the order of arrival."""

from __future__ import annotations

import asyncio

from drsr.proxy.admission import Admission


def test_never_more_inside_than_allowed_and_in_order() -> None:
    async def run() -> tuple[int, list[int]]:
        admission, most, order = Admission(3, 60), 0, []

        async def visit(number: int) -> None:
            nonlocal most
            async with admission.turn() as admitted:
                assert admitted
                order.append(number)
                most = max(most, admission.inside)
                await asyncio.sleep(0)

        await asyncio.gather(*(visit(number) for number in range(6)))
        assert admission.inside == admission.waiting == 0
        return most, order

    assert asyncio.run(run()) == (3, list(range(6)))


def test_who_waits_in_vain_leaves_nothing_behind() -> None:
    async def run() -> None:
        admission = Admission(1, 0)
        async with admission.turn() as first:
            assert first
            async with admission.turn() as second:
                assert not second
                assert (admission.inside, admission.waiting) == (1, 0)
        async with admission.turn() as third:
            assert third

    asyncio.run(run())


def test_no_more_wait_than_are_inside() -> None:
    async def run() -> None:
        admission, leave = Admission(1, 60), asyncio.Event()

        async def visit() -> bool:
            async with admission.turn() as admitted:
                if admitted:
                    await leave.wait()
                return admitted

        visits = [asyncio.create_task(visit()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (admission.inside, admission.waiting) == (1, 1)
        assert visits[2].done()
        assert not await visits[2]
        leave.set()
        assert await visits[0]
        assert await visits[1]

    asyncio.run(run())


def test_whoever_is_cancelled_gives_its_place_back() -> None:
    async def run() -> None:
        admission = Admission(1, 60)

        async def visit() -> None:
            async with admission.turn():
                await asyncio.Event().wait()

        inside, waiting = asyncio.create_task(visit()), asyncio.create_task(visit())
        await asyncio.sleep(0)
        for task in (waiting, inside):
            task.cancel()
        await asyncio.gather(inside, waiting, return_exceptions=True)
        assert (admission.inside, admission.waiting) == (0, 0)
        async with admission.turn() as admitted:
            assert admitted

    asyncio.run(run())
