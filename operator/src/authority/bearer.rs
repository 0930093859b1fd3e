//! Who shows a token.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};

use super::problem::{Kind, Problem};

/// The audience that a token must have, and the only one that is asked for: a token for the API
/// server proves nothing here, and one for here nothing to the API server.
pub(crate) const AUDIENCE: &str = "conclave";

/// The pod that a token was made for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Bearer {
    pub(super) namespace: String,
    pub(super) service_account: String,
    pub(super) pod: String,
    pub(super) uid: String,
}

/// The token of a request.
pub(super) fn token(headers: &HeaderMap) -> Result<String, Problem> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.split_once(' '));
    match token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => {
            Ok(token.to_owned())
        }
        _ => Err(unauthenticated("`Authorization: Bearer TOKEN` is missing")),
    }
}

/// Asks the API server whose token this is.
pub(super) async fn review(client: &Client, token: String) -> Result<Bearer, Problem> {
    let spec = TokenReviewSpec { token: Some(token), audiences: Some(vec![AUDIENCE.to_owned()]) };
    let review = TokenReview { metadata: ObjectMeta::default(), spec, status: None };
    let api: Api<TokenReview> = Api::all(client.clone());
    let reviewed =
        api.create(&PostParams::default(), &review).await.map_err(super::issuing::failed)?;
    let status = reviewed.status.unwrap_or_default();
    if status.authenticated != Some(true) {
        return Err(unauthenticated("the token is not valid for the audience `conclave`"));
    }
    // An API server that does not know audiences answers without one, and has checked none.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return Err(unauthenticated("the token has not the audience `conclave`"));
    }
    bearer(status.user.unwrap_or_default())
        .ok_or_else(|| unauthenticated("the token belongs to no pod with a ServiceAccount"))
}

fn bearer(user: UserInfo) -> Option<Bearer> {
    let username = user.username?;
    let (namespace, account) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let extra = user.extra?;
    let one = |key: &str| match extra.get(key)?.as_slice() {
        [one] if !one.is_empty() => Some(one.clone()),
        _ => None,
    };
    Some(Bearer {
        namespace: namespace.to_owned(),
        service_account: account.to_owned(),
        pod: one("authentication.kubernetes.io/pod-name")?,
        uid: one("authentication.kubernetes.io/pod-uid")?,
    })
}

fn unauthenticated(detail: &str) -> Problem {
    Problem::new(Kind::Unauthenticated, detail)
}
