package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const renderBufferBytes = 1 << 20

// rendered is a frame that a goroutine is still working on.
type rendered struct {
	frame []byte
	err   error
}

// render reads JSON objects from standard input, one a line, each with its kind and apiVersion,
// and writes each as a frame: its length, four bytes big-endian, and the object's protobuf in the
// envelope (k8s, a zero byte, runtime.Unknown) in which an API server sends it.
//
// Frames leave in the order of the lines, and at once where no other line is waiting, so that a
// program may write one line and wait for its frame.
func render(arguments []string) error {
	flags := flag.NewFlagSet("render", flag.ExitOnError)
	metadata := flags.Bool("metadata", false, "render a PartialObjectMetadata of each object")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	decode := decodeWhole
	if *metadata {
		decode = decodeMetadata
	}
	queue := make(chan chan rendered, 4*runtime.NumCPU()) // ordered, while its elements are not
	go renderLines(os.Stdin, decode, queue)
	return writeFrames(os.Stdout, queue)
}

func renderLines(
	input io.Reader, decode func([]byte) (apiruntime.Object, error), queue chan<- chan rendered,
) {
	defer close(queue)
	reader := bufio.NewReaderSize(input, renderBufferBytes)
	for {
		line, err := reader.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			place := make(chan rendered, 1)
			queue <- place
			go func() { place <- renderLine(line, decode) }()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				place := make(chan rendered, 1)
				place <- rendered{err: err}
				queue <- place
			}
			return
		}
	}
}

func renderLine(line []byte, decode func([]byte) (apiruntime.Object, error)) rendered {
	object, err := decode(line)
	if err != nil {
		return rendered{err: fmt.Errorf("line %.80q: %w", line, err)}
	}
	buffer := bytes.NewBuffer(make([]byte, 4, len(line)))
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := serializer.Encode(object, buffer); err != nil {
		return rendered{err: err}
	}
	frame := buffer.Bytes()
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return rendered{frame: frame}
}

func writeFrames(output io.Writer, queue <-chan chan rendered) error {
	writer := bufio.NewWriterSize(output, renderBufferBytes)
	for place := range queue {
		next := <-place
		if next.err != nil {
			return errors.Join(next.err, writer.Flush())
		}
		if _, err := writer.Write(next.frame); err != nil {
			return err
		}
		if len(queue) == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
	return writer.Flush()
}

func decodeWhole(line []byte) (apiruntime.Object, error) {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(line, nil, nil)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(*kind) // the envelope's type is read from here
	}
	return object, err
}

func decodeMetadata(line []byte) (apiruntime.Object, error) {
	object := &metav1.PartialObjectMetadata{}
	err := json.Unmarshal(line, object)
	object.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return object, err
}
