"""Octet: an Estimator-style training framework for today's TensorFlow."""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "trainer" / "__init__.py").read_text())[1]

# Installed, these folders lie below a package of Octet's own: a program may have a models/ too.
SHIPPED = ("gin_configs", "input_pipelines", "models")
SHIPPED_PACKAGES = setuptools.find_namespace_packages(include=[f"{folder}*" for folder in SHIPPED])

# Parts of jax that may change are called: both ends were tried, see docs/versions.md.
PJRT = ["jax>=0.8.1,<=0.11.2", "jaxlib>=0.8.1,<=0.11.2"]

# The TPU's compiler and driver. It is under Google Cloud's terms and is installed by whoever wants
# it; nothing of it is in this package.
LIBTPU = ["libtpu>=0.0.30,<=0.0.51"]

# tensorflow and tensorflow-cpu are different packages that overwrite each other, so that TensorFlow
# comes by an extra, one of five.
TENSORFLOW_CPU = ["tensorflow-cpu>=2.18,<2.22"]
TENSORFLOW = {
  "cpu": TENSORFLOW_CPU,
  "gpu": ["tensorflow[and-cuda]>=2.18,<2.22"],
  # TensorFlow traces on the CPU, and PJRT drives the GPUs or the TPU. jax[tpu] asks for the one
  # libtpu that jax's authors released it with; no TPU was at hand to try another.
  "xla-gpu": [*TENSORFLOW_CPU, "jax[cuda13]>=0.8.1,<=0.11.2", *PJRT[1:]],
  # The same for older drivers and GPUs. No test has run it.
  "xla-gpu-cuda12": [*TENSORFLOW_CPU, "jax[cuda12]>=0.8.1,<=0.11.2", *PJRT[1:]],
  "tpu": [*TENSORFLOW_CPU, "jax[tpu]>=0.8.1,<=0.11.2", *PJRT[1:], *LIBTPU],
}

# cmaes is for the sampler of that name; sqlalchemy is Optuna's way to its databases, and ours. From
# 2.1 on, it opens postgresql:// with psycopg; before, with psycopg2.
SWEEP = ["cmaes", "matplotlib>=3.8", "optuna>=4,<6", "sqlalchemy>=2.1,<3"]

MLFLOW = ["mlflow-skinny>=3.10,<4"]

setuptools.setup(
  name="octet-trainer",
  version=VERSION,
  author="The Octet authors",
  license="Apache-2.0",
  license_files=["LICENSE"],
  description="model_fn, input_fn and gin: train on TPUs, GPUs and CPUs with today's TensorFlow",
  long_description=(ROOT / "README.md").read_text(),
  long_description_content_type="text/markdown",
  python_requires=">=3.11,<3.14",
  packages=[
    *setuptools.find_namespace_packages(include=["trainer*"]),
    "octet_trainer",
    *(f"octet_trainer.{package}" for package in SHIPPED_PACKAGES),
  ],
  package_dir={f"octet_trainer.{folder}": folder for folder in SHIPPED},
  package_data={
    "octet_trainer.gin_configs": ["*.gin", "**/*.gin"],
    # py.typed tells type checkers that the annotations are meant for users.
    "trainer": ["py.typed", "*/templates/*.html", "*/templates/*.jinja", "compare/*.csv"],
  },
  # What was tried is declared, both ends: see docs/versions.md.
  install_requires=[
    "absl-py",
    "etils[epath]",  # files on local disks and on gs://, without TensorFlow
    "gin-config==0.5.0",  # whose internals trainer.config.gin_internals reads
    "h5py>=3.11",  # .weights.h5 and .keras files
    "jinja2>=3.1",  # the HTML pages
    "importlib_resources",  # which tensorflow-datasets 4.9.10 needs and does not declare
    # Keras 3.7.0: its Dropout raises ValueError under MirroredStrategy.
    "keras>=3.5,!=3.7.0,<3.16",
    "ml_dtypes>=0.4",  # bfloat16 in numpy
    "numpy>=1.26,<3",
    "nvidia-ml-py>=12.535,<14",  # asks the driver of GPUs, where there is one
    "packaging",  # compares versions of jax
    "protobuf>=4.22",  # warm-up requests; TensorFlow brings it
    "psutil",  # the free memory; tensorflow-datasets needs it too
    "pyarrow",  # tables in CSV and Parquet files; tensorflow-datasets needs it too
    "rich",  # the progress bar
    "scikit-learn",  # the digits
    "scipy>=1.11",  # sums over resampled examples in evaluation reports; scikit-learn needs it too
    "setuptools<81",  # tensorboard imports pkg_resources
    "tensorboard>=2.18,<2.22",  # tf.summary; from 2.21 on, TensorFlow does not bring it along
    "tensorflow-datasets>=4.9.7,<5",
    "tf_slim==1.1.0",  # whose files trainer.compat.contrib.tf_slim reads, with other imports
  ],
  extras_require={
    **TENSORFLOW,
    # Runs compiled programs on XLA devices, those of a CPU at the least: trainer.pjrt.
    "pjrt": PJRT,
    # trainer.preflight, beside any TensorFlow; [tpu] has it too.
    "preflight": [*PJRT, *LIBTPU],
    # Engines for exports on the CPU, which trainer.predict and trainer.serve try beside
    # TensorFlow: which is the fastest hangs on the model and the processor. TensorFlow has an
    # interpreter of TensorFlow Lite too, which it announces to drop for ai-edge-litert.
    "litert": ["ai-edge-litert>=1.2"],
    "onnx": ["onnxruntime>=1.20", "tf2onnx>=1.16"],  # tf2onnx converts
    "openvino": ["openvino>=2025.0"],  # reads the export's graph by itself
    # trainer.serve: the web framework, its server, and the metrics that Prometheus reads.
    "serve": ["fastapi>=0.110", "prometheus-client>=0.20", "starlette", "uvicorn[standard]>=0.29"],
    # --cluster=kubernetes: jax asks the cluster for the pods.
    "kubernetes": ["kubernetes>=29"],
    "plot": ["matplotlib>=3.8"],
    # MLflowHook and WandbHook: the clients of the trackers that teams have. mlflow-skinny is
    # MLflow's client without its server, with less than half of the packages.
    "mlflow": MLFLOW,
    "wandb": ["wandb>=0.20"],
    # Weights in .safetensors files, which PyTorch's and JAX's programs exchange.
    "safetensors": ["safetensors>=0.4,<0.9"],
    "benchmarks": ["matplotlib>=3.8", "torch>=2.4"],  # of which torch is one of the sides
    "sweep": SWEEP,
    "dashboard": [*SWEEP, "optuna-dashboard>=0.17"],  # figures of a sweep in the browser
    # The documentation: mkdocs build --strict. griffelib parses the docstrings for the references.
    "docs": [
      "griffelib>=2",
      "mkdocs>=1.6,<2",
      "mkdocs-material>=9.5,<10",
      "mkdocstrings[python]>=1",
      "ruff>=0.17,<0.18",  # breaks long signatures into lines
    ],
    "test": [
      *MLFLOW,
      *PJRT,
      *SWEEP,
      "coverage>=7.4",  # pytest --choose
      "fastapi>=0.110",
      "httpx",
      "hypothesis",
      "ipykernel",  # the notebooks, which the tests run
      "mypy>=2.4,<2.5",
      "nbclient",
      "nbformat",
      "prometheus-client>=0.20",
      "psycopg[binary]",
      "pyte",  # renders what a terminal shows
      "pytest",
      "pytest-timeout",
      "pytest-xdist",
      "ruff>=0.17,<0.18",
      "safetensors>=0.4,<0.9",
      "uvicorn>=0.29",
    ],
  },
  classifiers=[
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
  ],
)
