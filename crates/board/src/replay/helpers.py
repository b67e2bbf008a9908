HERE = pathlib.Path(__file__).resolve().parent
problems = []
repeated = []


def load(name):
    return np.load(HERE / f"{name}.npy")


def load_submission(folder, entry):
    path = (folder / entry).resolve()
    sys.path[:0] = [str(path.parent), str(folder.resolve())]
    name = path.stem if path.stem not in sys.modules else "submission"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def problem(text):
    problems.append(text)
    print(text)


def call(what, function, arguments, results, may_refuse=False):
    """Makes a call with copies of the arrays, and looks whether it wrote to them."""
    given = {name: a.copy() if isinstance(a, np.ndarray) else a for name, a in arguments.items()}
    views = {name: a[...] for name, a in given.items() if isinstance(a, np.ndarray)}
    try:
        value = function(*given.values())
    except Exception as error:
        if may_refuse:
            print(f"{what}: refused, as before: {error!r}")
            return (None,) * results
        traceback.print_exc()
        problem(f"{what}: refused")
        finish()
    for name, view in views.items():
        if view.tobytes() != arguments[name].tobytes():
            problem(f"{what}: wrote to its input {name}")
    if results == 1 and not isinstance(value, tuple):
        value = (value,)
    if not isinstance(value, (tuple, list)) or len(value) != results:
        problem(f"{what}: expected {results} results")
        finish()
    return value


def check(what, result, like, expected=None, budget=None, recorded=None):
    """Compares a result with what it should be, or else with what it was when it was judged."""
    dtype, shape = like
    if result is None:
        return
    if not isinstance(result, np.ndarray):
        result = np.from_dlpack(result) if hasattr(result, "__dlpack__") else np.asarray(result)
    if (result.dtype, result.shape) != (np.dtype(dtype), shape):
        problem(f"{what}: expected {dtype}{shape}, got {result.dtype}{result.shape}")
    elif expected is not None:
        used, index = error_in_budgets(result, expected, budget)
        if used > 0:
            at = tuple(map(int, np.unravel_index(index, result.shape)))
            where = f" at {at}: {result[at]!r}, should be {expected.reshape(shape)[at]!r}"
        else:
            where = ""
        print(f"{what}: max error {used:.3g} of its budget{where}")
        if not used <= 1:
            problem(f"{what}: over its budget")
    elif recorded is not None:
        repeated.append(np.ascontiguousarray(result).tobytes() == recorded.tobytes())
        print(f"{what}: {'the same as' if repeated[-1] else 'not the same as'} when it was judged")


def error_in_budgets(actual, expected, budget):
    """The largest error in units of its budget; infinite where one is NaN or infinite and the other is not."""
    actual, expected = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    budget = np.zeros_like(expected) if budget is None else budget.astype(np.float64).ravel()
    if actual.size == 0:
        return 0.0, 0
    with np.errstate(all="ignore"):
        error = np.abs(actual - expected)
        used = np.where(error == 0, 0.0, error / budget)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    finite = np.isfinite(actual) & np.isfinite(expected)
    used = np.where(finite, used, np.where(same, 0.0, np.inf))
    index = int(np.argmax(used))
    return float(used[index]), index


def finish():
    if repeated and not problems and all(repeated):
        problem("every answer is the one that was judged")
    print("REPRODUCED" if problems else "not reproduced")
    sys.exit(1 if problems else 0)
