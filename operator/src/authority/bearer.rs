//! Who shows a token.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use serde::Deserialize;
use serde_json::Value;

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

/// What a token says about itself, which nobody has proved.
#[derive(Deserialize)]
struct Claims {
    aud: Audiences,
    exp: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

/// The token of a request, if by what it says itself the API server is worth asking about it.
pub(super) fn token(headers: &HeaderMap, now: Timestamp) -> Result<String, Problem> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = match value.and_then(|value| value.split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token,
        _ => return Err(unauthenticated("`Authorization: Bearer TOKEN` is missing")),
    };
    let claims = claims(token).ok_or_else(|| unauthenticated("the token is no JWT"))?;
    let is_for_us = match claims.aud {
        Audiences::One(audience) => audience == AUDIENCE,
        Audiences::Several(audiences) => audiences.iter().any(|audience| audience == AUDIENCE),
    };
    if !is_for_us {
        return Err(unauthenticated("the token has not the audience `conclave`"));
    }
    if claims.exp + SKEW_SECONDS < now.as_duration().as_secs_f64() {
        return Err(unauthenticated("the token has ended"));
    }
    Ok(token.to_owned())
}

/// The middle one of the three parts, which is JSON in base64 as URLs have it.
fn claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let mut base64 = claims.replace('-', "+").replace('_', "/");
    while !base64.len().is_multiple_of(4) {
        base64.push('=');
    }
    let ByteString(json) = serde_json::from_value(Value::String(base64)).ok()?;
    serde_json::from_slice(&json).ok()
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

/// How far the clock of the API server may be behind this one.
const SKEW_SECONDS: f64 = 60.0;
