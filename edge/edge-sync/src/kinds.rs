//! Kinds of Kubernetes of which little is read: what is not named in a type is skipped while the answer is read, and never kept.

/// Says to kube what kind a type is of. Such a type is read only: nothing of it is written.
macro_rules! read_only {
    ($type:ident, $scope:ident, $group:literal, $version:literal, $kind:literal, $plural:literal) => {
        impl ::latchkey_kubernetes_client::kube::Resource for $type {
            type DynamicType = ();
            type Scope = ::latchkey_kubernetes_client::kube::core::$scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &::latchkey_kubernetes_client::kube::api::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ::latchkey_kubernetes_client::kube::api::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use read_only;
