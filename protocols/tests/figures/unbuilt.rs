//! What the literature names and this product has not.

/// The last section of the page.
pub(crate) const SECTION: &str = "
## What is not built

What lectures and textbooks name beside these algorithms, and this product has not:

| named | why it is not here | what to use instead |
| --- | --- | --- |
| Election on a tree, whose leaves begin (Mattern, *Verteilte Basisalgorithmen*, 1989) | The tree has to be there before the election, and a member that dies cuts it. | `Ring` or `ChangRoberts`, which skip the dead |
| Election among processes without identities (Itai and Rodeh, 1981) | Members have identities: the record numbers them. | any of the elections |
| Arbitration by a second network | The pods of a cluster have one network. A leader is confirmed by promises of a majority and by the record, so two sides of a partition never have a leader each. | `arbiter: Quorum`, the default |
| Consensus on values (Paxos, Raft) | The record is the one value that a group agrees on, and the API server's etcd keeps it by Raft. A second log in each pod would need a disk there. | etcd, for data of an application |
| Transactions, two-phase locking, two-phase commit | They need the stores whose data they change, to undo it or to vote. | a database; a lock with its fencing token, where one store checks it |
| Deadlock avoidance (Dijkstra's banker) | Members would have to state beforehand all locks that they may ask for. | `wait` with a limit on every lock; one order in which an application takes its locks |
| Deadlock prevention by age, wait-die and wound-wait (Rosenkrantz, Stearns and Lewis, *System Level Concurrency Control for Distributed Database Systems*, TODS 3(2), 1978) | The younger work is undone there, and only the store whose data it changed can undo it. | `wait` with a limit on every lock; one order in which an application takes its locks |
| Deadlock detection among those that wait for locks, the AND model: at one coordinator or several levels of them (Ho and Ramamoorthy, *Protocols for Deadlock Detection in Distributed Database Systems*, TSE 8(6), 1982), by paths (Obermarck, *Distributed Deadlock Detection Algorithm*, TODS 7(2), 1982), by probes (Chandy, Misra and Haas, *Distributed Deadlock Detection*, TOCS 1(2), 1983; Knapp, *Deadlock Detection in Distributed Databases*, Computing Surveys 19(4), 1987) | A claim does not state which other claims belong to the same work, so no member knows who waits for whom. | `wait` with a limit on every lock; one order in which an application takes its locks |
| Communication deadlocks, the OR model (the same sources) | Processes wait there for a message of any of several others. An application's messages do not pass by a sidecar. | a deadline on each request of the application |
| Termination detection (Dijkstra and Scholten, *Termination Detection for Diffusing Computations*, IPL 11(1), 1980; Mattern, *Algorithms for Distributed Termination Detection*, Distributed Computing 2, 1987) | Whether an application's processes are idle, and whether a message is under way between them, no sidecar sees. | the status of a Job; a count of open tasks in a store |
| Reliable multicast (Hadzilacos and Toueg, *A Modular Approach to Fault-Tolerant Broadcasts*, 1994; Birman and Joseph, *Reliable Communication in the Presence of Failures*, TOCS 5(1), 1987) | Members exchange what locks, elections and clocks need, and carry no messages of an application. | a message broker |
| Ordered multicast: FIFO, causal, total | It needs a multicast first. | the log of a message broker for a total order; stamps of a logical clock, by which an application orders what it receives |
| Snapshots of a global state (Chandy and Lamport, *Distributed Snapshots*, TOCS 3(1), 1985) | A marker has to go along each channel of the application, and these do not pass by a sidecar. | states that an application saves with their vector stamps: `/v1/clocks/compare` shows which of them are concurrent |
| Stable properties of a global state; checkpoints, recovery lines and message logs (Elnozahy, Alvisi, Wang and Johnson, *A Survey of Rollback-Recovery Protocols in Message-Passing Systems*, Computing Surveys 34(3), 2002) | They need a snapshot first, and a state of the application to go back to. | a database, or the log of a message broker, from which a process goes on |
| A recorder of all messages (Powell and Presotto, *Publishing: A Reliable Broadcast Communication Mechanism*, SOSP 1983) | It listens on a network on which everybody hears everything. | the log of a message broker |
| Distributed garbage collection, by references that are counted or listed, or by tracing (Plainfossé and Shapiro, *A Survey of Distributed Garbage Collection Techniques*, IWMM 1995) | Pods share no objects here that refer to one another. What a group itself keeps for a member ends with the member's lease. | a lease: a claim with a `ttl`; owner references, for objects of the cluster |
| Superpeers by tokens that repel one another (Tanenbaum and van Steen, 6.5.3, the second method) | Tokens need places in a space of delays, and members of a cluster are about as far from one another wherever they are. It is simulated beside the first method, [above](#superpeers-of-many-members). | the locks' algorithm `Superpeers`; the topology `Zones` for elections between zones |
| Superpeers that route requests for others, or keep an index of their data (the same section) | Members reach one another directly, and have no data in common. | a service mesh; a database |
| Receivers of GPS or of a time signal | That is hardware of a node, and sets the kernel's clock. | chrony or linuxptp on the node; `/v1/time` shows how far the machine's clock is from group time |
| Leap seconds | Group time counts seconds evenly. A kernel's clock that repeats one, or is slewed around it, differs from group time by that. | UTC of the machine, which `/v1/time` shows apart |
";

/// What lectures name has a row.
#[test]
fn everything_has_a_row_that_lectures_name_and_the_product_has_not() {
    let named = [
        "Election on a tree",
        "without identities",
        "second network",
        "Paxos",
        "two-phase commit",
        "banker",
        "wait-die",
        "AND model",
        "OR model",
        "Obermarck",
        "Termination detection",
        "Reliable multicast",
        "causal",
        "Snapshots",
        "checkpoints",
        "recorder",
        "garbage collection",
        "repel one another",
        "route requests",
        "GPS",
        "Leap seconds",
    ];
    let first = |row: &'static str| row.split('|').nth(1).expect("a row has columns");
    let rows: Vec<_> = SECTION.lines().filter(|line| line.starts_with('|')).map(first).collect();
    for name in named {
        let of = rows.iter().filter(|row| row.contains(name)).count();
        assert_eq!(of, 1, "rows of {name}");
    }
    assert!(SECTION.lines().all(|line| !line.starts_with('|') || line.split('|').count() == 5));
}
