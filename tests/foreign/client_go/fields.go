package main

import (
	"encoding/json"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// leaves are messages whose JSON is no object; the server decodes each in its own way.
var leaves = map[string]string{
	"meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.FieldsV1": "raw",
	"api/resource.Quantity": "quantity", "util/intstr.IntOrString": "intorstring",
	"pkg/runtime.RawExtension": "raw",
}

var groups = map[string]bool{
	"v1": true, "apps/v1": true, "batch/v1": true, "coordination.k8s.io/v1": true,
	"discovery.k8s.io/v1": true, "events.k8s.io/v1": true, "networking.k8s.io/v1": true,
	"policy/v1": true, "autoscaling/v1": true, "autoscaling/v2": true,
	"scheduling.k8s.io/v1": true, "storage.k8s.io/v1": true,
	"rbac.authorization.k8s.io/v1": true, "authorization.k8s.io/v1": true,
	"authentication.k8s.io/v1": true,
}

// fields prints how the objects of built-in resources look in protobuf: for each message its
// fields by number, as a name, a type and flags: p pointer (zero counts), r repeated, m map,
// i inlined into the object around it.
func fields(string, *rest.Config, string) error {
	table := tables{Kinds: map[string]string{}, Types: map[string]map[string][3]string{}}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		version := kind.GroupVersion().String()
		isOptions := strings.HasSuffix(kind.Kind, "Options") && kind.Kind != "DeleteOptions"
		isOther := strings.HasSuffix(kind.Kind, "List") || kind.Kind == "WatchEvent"
		if groups[version] && !isOptions && !isOther {
			table.Kinds[version+"/"+kind.Kind] = table.add(goType)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(table)
}

type tables struct {
	Kinds map[string]string               `json:"kinds"`
	Types map[string]map[string][3]string `json:"types"`
}

// add describes a message and those in it, and returns its name.
func (t tables) add(goType reflect.Type) string {
	name := path.Base(path.Dir(goType.PkgPath())) + "/" + path.Base(goType.PkgPath()) +
		"." + goType.Name()
	if leaf := leaves[name]; leaf != "" {
		return leaf
	}
	if goType.Kind() == reflect.Slice {
		return "list" // such as ExtraValue: a message with one field of strings
	}
	if _, known := t.Types[name]; known {
		return name
	}
	described := map[string][3]string{}
	t.Types[name] = described
	for index := range goType.NumField() {
		field := goType.Field(index)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 4 {
			continue // apiVersion and kind
		}
		wanted, flags := field.Type, ""
		if field.Anonymous && strings.Split(field.Tag.Get("json"), ",")[0] == "" {
			flags += "i"
		}
		if wanted.Kind() == reflect.Pointer {
			wanted, flags = wanted.Elem(), flags+"p"
		}
		if wanted.Kind() == reflect.Map {
			wanted, flags = wanted.Elem(), flags+"m"
		} else if wanted.Kind() == reflect.Slice && wanted.Elem().Kind() != reflect.Uint8 {
			wanted, flags = wanted.Elem(), flags+"r"
		}
		if wanted.Kind() == reflect.Pointer {
			wanted = wanted.Elem()
		}
		described[tag[1]] = [3]string{
			strings.TrimPrefix(tag[3], "name="), t.typeOf(wanted), flags,
		}
	}
	return name
}

func (t tables) typeOf(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "int"
	case reflect.Uint8:
		return "bytes" // an element of bytes that was taken for a list
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
	case reflect.Float64:
		return "double"
	}
	if goType.Kind() == reflect.Struct || goType.Kind() == reflect.Slice {
		return t.add(goType)
	}
	panic("no such field: " + goType.String() + strconv.Itoa(int(goType.Kind())))
}
