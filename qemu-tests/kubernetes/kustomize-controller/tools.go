//go:build tools

// Package kustomizecontroller pins Flux's kustomize-controller, which tests build; go.sum holds the checksums.
package kustomizecontroller

import (
	_ "github.com/fluxcd/kustomize-controller"
)
