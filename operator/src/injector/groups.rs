//! Whether the group that a new pod names is there: its creator is warned if not.
//!
//! Pod and `Conclave` may come in either order, so this refuses nothing. Everybody that reaches the webhook can make
//! up a review, so few look at a time, and a review for which there is no room or no answer gets no warning.

use std::sync::Arc;
use std::time::Duration;

use conclave_crds::Conclave;
use conclave_kubernetes::within;
use kube::{Api, Client};
use tokio::sync::Semaphore;

/// What looks for groups. Clones are the same.
#[derive(Clone)]
pub struct Groups {
    client: Client,
    free: Arc<Semaphore>,
}

impl Groups {
    /// Looks at this API server.
    pub fn new(client: Client) -> Self {
        Self { client, free: Arc::new(Semaphore::new(LOOKS)) }
    }

    /// What the creator of a pod of this group is to know. Both are names.
    pub(super) async fn warning(&self, namespace: &str, group: &str) -> Option<String> {
        let _permit = self.free.try_acquire().ok()?;
        let groups: Api<Conclave> = Api::namespaced(self.client.clone(), namespace);
        let found = within(PATIENCE, groups.get_metadata_opt(group)).await.ok()?.ok()?;
        found.is_none().then(|| {
            format!(
                "there is no Conclave `{group}` in the namespace `{namespace}`: until there is one, the pod is in \
                 no group"
            )
        })
    }
}

/// How many look at a time.
const LOOKS: usize = 4;
/// How long one may take: less than the shortest time that the API server waits for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
