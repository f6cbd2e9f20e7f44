"""Collectives as messages between actors of SimGrid: reads cases as JSON on stdin, prints their times, s, as JSON.

For the Python that has SimGrid (Debian's python3-simgrid), which need not be that of the study. Every rank has a link
to its node, out and in, every node one to the others; nothing but bytes and latencies takes time. Each case has hosts
and links of its own, so that all run at once.
"""

from __future__ import annotations

import itertools
import json
import os
import sys

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone

FINISHED: dict[int, float] = {}


class Rank:
    """One rank of a case; `exchange` sends and receives at once, as MPI's sendrecv."""

    def __init__(self, case: int, rank: int, nodes: list[int], message_bytes: float, algorithm: str) -> None:
        self.case, self.rank, self.nodes, self.bytes, self.algorithm = case, rank, nodes, message_bytes, algorithm

    def box(self, sender: int, receiver: int) -> Mailbox:
        return Mailbox.by_name(f"{self.case}:{sender}>{receiver}")

    def exchange(self, to: int | None, of: int | None, size: float) -> None:
        sent = None if to is None else self.box(self.rank, to).put_async(1, max(1, round(size)))
        if of is not None:
            self.box(of, self.rank).get()
        if sent is not None:
            sent.wait()

    def __call__(self) -> None:
        getattr(self, self.algorithm)()
        FINISHED[self.case] = max(FINISHED.get(self.case, 0.0), Engine.clock)

    def ring(self) -> None:
        self._ring(list(range(len(self.nodes))), self.bytes, 2)

    def _ring(self, members: list[int], size: float, halves: int) -> None:
        p, place = len(members), members.index(self.rank)
        for _ in range(halves * (p - 1)):
            self.exchange(members[(place + 1) % p], members[(place - 1) % p], size / p)

    def hierarchical(self) -> None:
        own = [rank for rank, node in enumerate(self.nodes) if node == self.nodes[self.rank]]
        place = own.index(self.rank)
        across = [rank for rank in range(len(self.nodes)) if rank % len(own) == place]  # nodes have as many ranks each
        self._ring(own, self.bytes, 1)
        self._ring(across, self.bytes / len(own), 2)
        self._ring(own, self.bytes, 1)

    def halving_doubling(self) -> None:
        p = len(self.nodes)
        power = 2 ** (p.bit_length() - 1)
        beyond = p - power
        folded = self.rank < 2 * beyond
        neighbour = self.rank ^ 1
        members = [2 * i + 1 for i in range(beyond)] + list(range(2 * beyond, p))
        if folded and self.rank % 2 == 0:
            self.exchange(neighbour, None, self.bytes)
            self.exchange(None, neighbour, self.bytes)
            return
        if folded:
            self.exchange(None, neighbour, self.bytes)
        place = members.index(self.rank)
        distances = [2**i for i in range(power.bit_length() - 1)]
        for distance in distances + distances[::-1]:
            partner = members[place ^ distance]
            self.exchange(partner, partner, self.bytes / (2 * distance))
        if folded:
            self.exchange(neighbour, None, self.bytes)

    def broadcast(self) -> None:
        first = [self.nodes.index(node) for node in sorted(set(self.nodes))]
        if self.rank in first:
            self._binomial(first)
        self._binomial([rank for rank, node in enumerate(self.nodes) if node == self.nodes[self.rank]])

    def _binomial(self, members: list[int]) -> None:
        """From the first member: who has the message sends it to one who has not, in every round."""
        place, have = members.index(self.rank), 1
        while have < len(members):
            if place < have and place + have < len(members):
                self.exchange(members[place + have], None, self.bytes)
            elif have <= place < 2 * have:
                self.exchange(None, members[place - have], self.bytes)
            have *= 2


def build(world: NetZone, number: int, case: dict) -> None:
    """Hosts, links and ranks of one case."""
    nodes = [node for node, ranks in enumerate(case["layout"]) for _ in range(ranks)]
    hosts = [world.create_host(f"{number}-{rank}", 1e9) for rank in range(len(nodes))]

    def links(name: str, tier: str) -> tuple[LinkInRoute, LinkInRoute]:
        """The way out, which has the latency, and the way in."""
        made = [world.create_link(f"{number}-{name}-{way}", case[f"{tier}_bytes_per_s"]) for way in ("out", "in")]
        for link, latency_s in zip(made, (case[f"{tier}_latency_s"], 0.0), strict=True):
            link.set_latency(latency_s)
        return LinkInRoute(made[0].seal()), LinkInRoute(made[1].seal())

    of_rank = [links(f"rank{rank}", "inside") for rank in range(len(nodes))]
    of_node = [links(f"node{node}", "between") for node in range(len(case["layout"]))]
    for a, b in itertools.permutations(range(len(nodes)), 2):
        same = nodes[a] == nodes[b]
        route = [of_rank[a][0], of_rank[b][1]] if same else [of_node[nodes[a]][0], of_node[nodes[b]][1]]
        world.add_route(hosts[a].netpoint, hosts[b].netpoint, None, None, route, False)
    for rank, host in enumerate(hosts):
        Actor.create(f"{number}-{rank}", host, Rank(number, rank, nodes, case["message_bytes"], case["algorithm"]))


def main() -> None:
    """Build all cases, run them, print their times in order."""
    # latency and bandwidth as they are, without TCP's windows and without acknowledgements in the way
    settings = ("network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0")
    engine = Engine([sys.argv[0], *(f"--cfg={setting}" for setting in settings), "--log=root.thres:error"])
    world = NetZone.create_full_zone("world")
    cases = json.load(sys.stdin)
    for number, case in enumerate(cases):
        build(world, number, case)
    world.seal()
    engine.run()
    print(json.dumps([FINISHED[number] for number in range(len(cases))]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
