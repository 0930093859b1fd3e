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
| Receivers of GPS or of a time signal | That is hardware of a node, and sets the kernel's clock. | chrony or linuxptp on the node; `/v1/time` shows how far the machine's clock is from group time |
| Leap seconds | Group time counts seconds evenly. A kernel's clock that repeats one, or is slewed around it, differs from group time by that. | UTC of the machine, which `/v1/time` shows apart |
";
