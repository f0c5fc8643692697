#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/arguments.h"

namespace cxtrain {

/// The type that an interface names as `Context`; an empty type if the interface names none.
template <class Interface, class = void>
struct ContextOf {
  struct Type {};
};
template <class Interface>
struct ContextOf<Interface, std::void_t<typename Interface::Context>> {
  using Type = typename Interface::Context;
};

/// Components by name: strategies, models, data modules, callbacks, loggers. One mechanism serves all kinds.
///
/// An interface takes part by naming its kind:
///
///     class MetricLogger { public: static constexpr std::string_view kKind = "logger"; ... };
///
/// and a plugin adds an implementation:
///
///     registry.add<MetricLogger>("wandb", "sends metrics to Weights & Biases", {},
///                                [](const Arguments&) { return std::make_unique<WandbLogger>(); });
///
/// If the program needs facts about a component before it makes one, the interface names a type for them,
/// `using Traits = StrategyTraits;`, and the plugin passes them:
///
///     registry.add<Strategy>("ddp", "gradients averaged over all ranks", {}, StrategyTraits{},
///                            [](const Arguments&) { return std::make_unique<DdpStrategy>(); });
///
/// If a component may need facts about its run, the interface names a type for them,
/// `using Context = RunFolder;`, and a factory may take it as its second parameter.
class Registry {
 public:
  template <class Interface>
  using Context = typename ContextOf<Interface>::Type;
  template <class Interface>
  using Factory = std::function<std::unique_ptr<Interface>(const Arguments&, const Context<Interface>&)>;

  struct Entry {
    std::string kind, name, help;
    std::vector<ArgumentSpec> arguments;
    std::string origin;  ///< the component's file, or "built in"
    std::any factory;
    std::any traits = {};  ///< has the interface's `Traits` type; empty if it has none
  };

  /// Adds a component. `factory` makes it from its arguments, or from its arguments and the interface's
  /// context.
  template <class Interface, class Make>
  void add(std::string name, std::string help, std::vector<ArgumentSpec> arguments, Make factory) {
    static_assert(
        !requires { typename Interface::Traits; }, "a component of this kind says its traits, too");
    insert({std::string(Interface::kKind), std::move(name), std::move(help), std::move(arguments), origin_,
            factory_of<Interface>(std::move(factory))});
  }
  template <class Interface, class Make>
  void add(std::string name, std::string help, std::vector<ArgumentSpec> arguments,
           typename Interface::Traits traits, Make factory) {
    insert({std::string(Interface::kKind), std::move(name), std::move(help), std::move(arguments), origin_,
            factory_of<Interface>(std::move(factory)), std::move(traits)});
  }

  /// Returns the entry, or null.
  const Entry* find(std::string_view kind, std::string_view name) const;

  /// Makes a component. Throws PluginError, with the names found, if there is none of this name.
  template <class Interface>
  std::unique_ptr<Interface> make(std::string_view name, const Arguments& arguments,
                                  const Context<Interface>& context = {}) const {
    return std::any_cast<const Factory<Interface>&>(require(Interface::kKind, name).factory)(arguments,
                                                                                             context);
  }

  /// Returns the component's traits. Throws PluginError, with the names found, if there is none of this name.
  template <class Interface>
  typename Interface::Traits traits(std::string_view name) const {
    return std::any_cast<typename Interface::Traits>(require(Interface::kKind, name).traits);
  }

  /// Returns the entry. Throws PluginError, with the names found, if there is none of this name.
  const Entry& require(std::string_view kind, std::string_view name) const;
  std::vector<std::string> names(std::string_view kind) const;

  /// Returns whether a component came from this file.
  bool has_origin(std::string_view origin) const;

  /// Sets `Entry::origin` for the following additions. Called by the loader.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  template <class Interface, class Make>
  static Factory<Interface> factory_of(Make make) {
    if constexpr (std::is_invocable_v<Make&, const Arguments&, const Context<Interface>&>) {
      return make;
    } else {
      return [make = std::move(make)](const Arguments& arguments, const Context<Interface>&) {
        return make(arguments);
      };
    }
  }
  void insert(Entry entry);

  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::string origin_ = "built in";
};

}  // namespace cxtrain
