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
| Deadlock detection among those that wait for locks, the AND model (Chandy, Misra and Haas, *Distributed Deadlock Detection*, TOCS 1(2), 1983; Knapp, *Deadlock Detection in Distributed Databases*, Computing Surveys 19(4), 1987) | A claim does not state which other claims belong to the same work, so no member knows who waits for whom. | `wait` with a limit on every lock; one order in which an application takes its locks |
| Communication deadlocks, the OR model (the same sources) | Processes wait there for a message of any of several others. An application's messages do not pass by a sidecar. | a deadline on each request of the application |
| Reliable multicast (Hadzilacos and Toueg, *A Modular Approach to Fault-Tolerant Broadcasts*, 1994; Birman and Joseph, *Reliable Communication in the Presence of Failures*, TOCS 5(1), 1987) | Members exchange what locks, elections and clocks need, and carry no messages of an application. | a message broker |
| Ordered multicast: FIFO, causal, total | It needs a multicast first. | the log of a message broker for a total order; stamps of a logical clock, by which an application orders what it receives |
| Snapshots of a global state (Chandy and Lamport, *Distributed Snapshots*, TOCS 3(1), 1985) | A marker has to go along each channel of the application, and these do not pass by a sidecar. | states that an application saves with their vector stamps: `/v1/clocks/compare` shows which of them are concurrent |
| Distributed garbage collection, by references that are counted or listed, or by tracing (Plainfossé and Shapiro, *A Survey of Distributed Garbage Collection Techniques*, IWMM 1995) | Pods share no objects here that refer to one another. What a group itself keeps for a member ends with the member's lease. | a lease: a claim with a `ttl`; owner references, for objects of the cluster |
| Superpeers by tokens that repel one another (Tanenbaum and van Steen, 6.5.3, the second method) | Tokens need places in a space of delays, and members of a cluster are about as far from one another wherever they are. It is simulated beside the first method, [above](#superpeers-of-many-members). | the locks' algorithm `Superpeers`; the topology `Zones` for elections between zones |
| Receivers of GPS or of a time signal | That is hardware of a node, and sets the kernel's clock. | chrony or linuxptp on the node; `/v1/time` shows how far the machine's clock is from group time |
| Leap seconds | Group time counts seconds evenly. A kernel's clock that repeats one, or is slewed around it, differs from group time by that. | UTC of the machine, which `/v1/time` shows apart |
";
